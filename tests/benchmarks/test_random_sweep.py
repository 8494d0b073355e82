"""Patterns compute what torch does, and draws can be repeated."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from math import prod

import pytest
import torch

from benchmarks import random_sweep
from benchmarks.cases import PASSES
from benchmarks.executors import Executor
from benchmarks.patterns import PATTERNS
from benchmarks.random_sweep import Drawn, Found, drawn, judged, line, named, phases_of

SHAPES = {"images": (3, 9, 7, 4), "rows": (12, 34), "scores": (3, 2, 5, 5), "tokens": (3, 5, 64)}


@pytest.mark.parametrize("name", PATTERNS)
def test_ours_is_as_near_to_fp64_as_eager(name: str) -> None:
    device = torch.device("cpu")
    case = Drawn(name, SHAPES[PATTERNS[name].family], torch.float32).case(device)
    assert judged(case, torch.float32, device).is_right == dict.fromkeys(phases_of(case), True)


def test_a_wrong_result_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    device = torch.device("cpu")
    case = Drawn("softmax", SHAPES["rows"], torch.float32).case(device)
    wrong = replace(case, function=lambda x: torch.softmax(x, -1) * 1.00001)
    ours = Executor("ours", lambda device: lambda case, keywords: wrong.function)
    monkeypatch.setattr(random_sweep, "EXECUTORS", [ours])
    assert judged(case, torch.float32, device).is_right == dict.fromkeys(PASSES, False)


def test_a_seed_draws_the_same_cases_of_about_as_many_elements() -> None:
    found = [*islice(drawn(7), 900)]
    assert found == [*islice(drawn(7), 900)]
    assert found != [*islice(drawn(8), 900)]
    assert {case.name for case in found} == PATTERNS.keys()
    assert all(prod(case.shape) > random_sweep.ELEMENTS // 2 for case in found)


def test_a_case_is_read_as_it_is_told() -> None:
    case = Drawn("chnorm", (8, 31, 28, 28), torch.bfloat16)
    assert str(case) == "chnorm 8x31x28x28 bfloat16"
    assert Drawn.parse(str(case)) == case


def test_a_family_is_all_of_its_patterns() -> None:
    assert named("chnorm 8x31x28x28 bfloat16") == [Drawn("chnorm", (8, 31, 28, 28), torch.bfloat16)]
    found = named("tokens 3x5x64 float16")
    assert {case.name for case in found} == {k for k, p in PATTERNS.items() if p.family == "tokens"}
    assert {(case.shape, case.dtype) for case in found} == {((3, 5, 64), torch.float16)}


@pytest.mark.parametrize("text", ["", "chnorm 8x31", "chnorm 8xa bfloat16", "chnorm 8 notatype"])
def test_what_is_no_case_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not a pattern, sizes and a dtype"):
        Drawn.parse(text)
    with pytest.raises(ValueError, match="no pattern 'norm': there are ch_scale"):
        Drawn.parse("norm 8x31 bfloat16")


def test_lines_tell_cliffs_slow_first_calls_and_wrong_results() -> None:
    case = Drawn("l2", (8, 31), torch.float16)
    fast, slow = (Found("forward", 70.4, 1, share, True) for share in (0.9, 0.5))
    wrong = Found("backward", 100.0, 2, 0.8, False)
    assert line(case, [fast], 1.54) == "    l2 8x31 float16 forward 70 us n1 0.90 first 1.5 s"
    assert line(case, [slow], 1.5).startswith("LOW l2")
    assert line(case, [slow], 10.5).startswith("SLOW l2")
    assert line(case, [slow, wrong], 10.5).startswith("WRONG l2 8x31 float16")


def test_without_a_gpu_nothing_is_measured(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert random_sweep.main(["--seed", "1"]) == 2
    assert "there is no GPU" in capsys.readouterr().err
