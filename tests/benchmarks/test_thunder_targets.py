"""Thunder's own benchmarks run with our executor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import thunder
import torch
from thunder.extend import get_default_executors, set_default_executors

from benchmarks.thunder_targets import main, use_ours
from thunder_fuser import fuser


@pytest.fixture
def defaults() -> Iterator[None]:
    kept = list(get_default_executors())
    yield
    set_default_executors(kept)


@pytest.mark.usefixtures("defaults")
def test_ours_is_the_default_before_attention() -> None:
    use_ours()
    names = [executor.name for executor in get_default_executors()]
    assert names[0] == fuser.name
    assert set(names[1:]) <= {"cudnn", "sdpa"}
    assert "sdpa" in names


@pytest.mark.usefixtures("defaults")
@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU CPU tensors are left alone")
def test_a_target_of_thunder_is_compiled_by_ours() -> None:
    targets = pytest.importorskip("thunder.benchmarks")
    bench = targets.LitGPTGeluBenchmark(
        config="pythia-14m",
        batchdims=(1,),
        device="cpu",
        dtype=thunder.bfloat16,
        requires_grad=True,
    )
    use_ours()
    function = targets.thunder_executor(bench.fn())
    (x,), keywords = bench.make_batch()
    y = function(x, **keywords)
    facts = fuser.facts(function)
    assert (facts.forward.kernels, facts.forward.unclaimed_ops) == (1, 0)
    torch.testing.assert_close(y, bench.fn()(x, **keywords), rtol=0.02, atol=0.01)


def test_wrong_calls_are_answered_with_usage(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == main(["target"]) == 2
    assert "usage: python -m benchmarks.thunder_targets" in capsys.readouterr().err


@pytest.mark.usefixtures("defaults")
def test_a_pytest_that_cannot_read_the_targets_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(pytest, "__version__", "9.2.0")
    assert main(["targets", "-k", "gelu"]) == 2
    assert "need pytest 8" in capsys.readouterr().err
