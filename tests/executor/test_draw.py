"""What a drawing shows of a function: steps, segments, views, kernels, bytes."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
import thunder
import torch

import thunder_fuser
from tests.executor.jitted import jit
from tests.executor.test_random_programs import random_program
from thunder_fuser import fuser
from thunder_fuser.executor.draw import drawing
from thunder_fuser.executor.steps import halves

SVG = "{http://www.w3.org/2000/svg}"


def texts(jfn: object) -> list[str]:
    root = ElementTree.fromstring(drawing(jfn))  # type: ignore[arg-type]
    return [found.text or "" for found in root.iter(f"{SVG}text")]


def wires(jfn: object) -> dict[str, list[str]]:
    """The classes of the lines of each wire: "" is a whole line, then dashed and arrow."""
    root = ElementTree.fromstring(drawing(jfn))  # type: ignore[arg-type]
    groups = root.iter(f"{SVG}g")
    return {g[0].text or "": [p.attrib.get("class", "") for p in g[1:]] for g in groups}


def between(shown: list[str], first: str, last: str) -> list[str]:
    start = shown.index(first)
    return shown[start : shown.index(last, start)]


def test_regions_and_what_is_between_them_have_reasons_and_bytes() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(torch.cumprod(torch.tanh(x) * 2, 0)) * x

    jfn = jit(program)
    jfn(torch.randn(8, 16))
    shown = texts(jfn)
    line = program.__code__.co_firstlineno + 1
    assert shown[3:5] == ["arguments", "x: f32[8, 16], 512 B"]
    cumprod = shown.index(f"cumprod  test_draw.py:{line}")
    assert shown[cumprod + 1 : cumprod + 4] == [
        "outside: no rule for cumprod",
        "reads t1: f32[8, 16], 512 B",
        "makes t6: f32[8, 16], 512 B",
    ]
    assert "region TF1: 2 symbols" in shown
    assert shown[-2:] == ["results", "t4: f32[8, 16], 512 B"]
    assert {"x", "t1", "t6", "t4"} <= set(wires(jfn))


def test_segments_carry_their_reasons_kernels_and_the_bytes_between_them() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.softmax(0).t().softmax(0)

    jfn = thunder.jit(program, executors=[fuser])
    jfn(torch.randn(40, 300))
    shown = texts(jfn)
    (plan,) = thunder_fuser.executor.explain.regions_of(jfn)[0].last_used.leaf.program.plans
    assert len(plan.segmented.segments) > 1
    for position in range(len(plan.segmented.segments)):
        assert f"segment {position}" in shown
        assert f"TF0 kernel {position}" in shown
    first = between(shown, "segment 0", "segment 1")
    assert first[:3] == ["segment 0", "the region", "reads T0: 46.88 KiB"]
    source = plan.kernels[0]
    assert f"{source.blocks} blocks of {source.threads} threads" in shown
    assert any(text.startswith("moves 46.88 KiB in, ") for text in shown)


def test_views_are_dashed_and_move_nothing() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        a = torch.exp(x) * y
        return a, a.t()

    jfn = jit(program)
    jfn(torch.randn(3, 5), torch.randn(3, 5))
    shown = texts(jfn)
    start = shown.index("views")
    assert shown[start + 1 : start + 3] == ["of T3: 0 B moved", "T4: [5, 3] strides [1, 5] + 0"]
    assert "dashed" in wires(jfn)["T4"]
    assert wires(jfn)["T0"] == ["", "arrow"]


def test_a_write_in_place_and_an_input_that_is_handed_on() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(torch.tanh(y) * 2)
        return x

    jfn = jit(program)
    jfn(torch.randn(3, 5), torch.randn(3, 5))
    shown = texts(jfn)
    assert "writes T1 in place: 60 B" in shown
    assert any(text.startswith("hands on ") for text in shown)


def test_forward_and_backward_are_drawn_with_what_is_saved() -> None:
    jfn = jit(lambda x: torch.sin(torch.cumprod(torch.tanh(x) * 2, 0)) * 3)
    jfn(torch.randn(7, 9, requires_grad=True)).sum().backward()
    shown = texts(jfn)
    forward = between(shown, "forward", "backward")
    saved = forward[forward.index("saved for the backward") + 1 :]
    backward = shown[shown.index("backward") :]
    assert saved
    assert set(saved) <= set(backward)  # they are arguments there
    assert any(text.startswith("region TF") for text in backward)


def test_equal_kernels_are_named_and_torch_is_named_where_it_runs() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.cumprod(torch.tanh(x) * 2, 0)) * 2

    jfn = thunder.jit(program, executors=[fuser])
    jfn(torch.randn(3, 5))
    assert "the code of TF0 kernel 0" in texts(jfn)
    jfn = jit(program)
    jfn(torch.randn(3, 5))
    assert "torch runs it" in texts(jfn)


def test_a_backward_that_was_not_called_has_no_segments() -> None:
    jfn = jit(lambda x: torch.sin(x) * x)
    jfn(torch.randn(3, 5, requires_grad=True))
    assert "not called yet" in texts(jfn)


@pytest.mark.parametrize("seed", range(16))
def test_all_that_a_region_makes_is_wired_to_where_it_is_made(seed: int) -> None:
    """To a segment, or to the views. What a region takes may be there to be handed on alone."""
    source = random_program(random.Random(seed))
    scope: dict[str, Callable[..., object]] = {}
    exec(source, {"torch": torch}, scope)
    jfn = jit(scope["program"])
    jfn(torch.randn(4, 4), torch.randn(4, 4))
    root = ElementTree.fromstring(drawing(jfn))
    drawn = Counter(group[0].text for group in root.iter(f"{SVG}g"))
    rows = [re.search(r"^makes \S+ = (T\d+):", text) for text in texts(jfn)]
    assert not Counter(found[1] for found in rows if found) - drawn, source


def test_many_arguments_are_named_and_not_wired() -> None:
    def program(x: torch.Tensor, *others: torch.Tensor) -> torch.Tensor:
        for other in others:
            x = torch.cumprod(torch.tanh(x) * other, 0)
        return x

    for count, is_wired in ((3, True), (47, False)):
        jfn = jit(program)
        jfn(*(torch.randn(3) for _ in range(count + 1)))
        (half,) = halves(jfn)
        taken = {value.name for value in half.takes}
        assert len(taken) == count + 1
        assert (taken <= set(wires(jfn))) == is_wired
        assert taken.isdisjoint(wires(jfn)) != is_wired
        assert any(text.startswith(f"reads {max(taken)} = ") for text in texts(jfn))
        made = {v.name for step in half.steps for v in step.makes}
        read = {v.name for step in half.steps for v in step.reads}
        returned = {v.name for v in half.returns} if is_wired else set()
        assert made & set(wires(jfn)) == made & (read | returned)


def test_the_file_is_written(tmp_path: Path) -> None:
    jfn = jit(lambda x: torch.sin(x) * x)
    with pytest.raises(ValueError, match="never called"):
        thunder_fuser.draw(jfn, tmp_path / "picture.svg")
    jfn(torch.randn(3))
    thunder_fuser.draw(jfn, tmp_path / "picture.svg")
    fuser.draw(jfn, tmp_path / "same.svg")
    assert (tmp_path / "picture.svg").read_text() == (tmp_path / "same.svg").read_text()
    assert (tmp_path / "picture.svg").read_text() == drawing(jfn)
