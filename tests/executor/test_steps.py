"""The last traces as steps, with what goes in and out of each."""

from __future__ import annotations

from pathlib import Path

import pytest
import thunder
import torch

from tests.executor.jitted import jit
from thunder_fuser.executor.steps import Value, halves


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = torch.tanh(x) * y
    return torch.sin(torch.cumprod(a, 0)) * y


def called() -> object:
    jfn = jit(program)
    jfn(torch.randn(5, 7, requires_grad=True), torch.randn(7)).sum().backward()
    return jfn


def test_steps_are_regions_and_what_is_between_them() -> None:
    forward, backward = halves(called())
    assert (forward.title, backward.title) == ("forward", "backward")
    names = [step.region.name if step.region else step.symbols[0].op for step in forward.steps]
    assert names == ["TF0", "cumprod", "TF1"]
    first, outside, _ = forward.steps
    assert [value.name for value in first.reads] == ["x", "y"]
    assert outside.reads[0] in first.makes
    assert outside.reads == (Value(outside.reads[0].name, "f32[5, 7]", 5 * 7 * 4),)
    assert outside.symbols[0].reason == "no rule for cumprod"
    assert [symbol.reason for symbol in first.symbols] == [None] * len(first.symbols)


def test_what_a_half_takes_returns_and_keeps() -> None:
    forward, backward = halves(called())
    assert [value.name for value in forward.takes] == ["x", "y"]
    assert [value.type for value in forward.returns] == ["f32[5, 7]"]
    assert forward.keeps
    assert {value.name for value in forward.keeps} <= {value.name for value in backward.takes}
    assert [value.type for value in backward.returns] == ["f32[5, 7]"]
    assert backward.keeps == ()


def test_a_step_knows_the_users_line_and_no_line_of_thunders() -> None:
    def squared(x: torch.Tensor) -> torch.Tensor:
        return x.exp() * 2  # Thunder takes `exp` for a line of its own

    jfn = jit(squared)
    jfn(torch.randn(3))
    (half,) = halves(jfn)
    places = {symbol.op: (symbol.file, symbol.line) for symbol in half.steps[0].symbols}
    assert places["mul"] == (__file__, squared.__code__.co_firstlineno + 1)
    inside = str(Path(thunder.__file__).parent)
    assert not any(file and file.startswith(inside) for file, _ in places.values())


def test_a_function_without_our_executor_says_so() -> None:
    jfn = thunder.jit(lambda x: torch.tanh(x) * 2, executors=[])
    jfn(torch.randn(3))
    (half,) = halves(jfn)
    reasons = {symbol.reason for step in half.steps for symbol in step.symbols}
    assert reasons == {"thunder_fuser is not among the executors"}


def test_what_never_ran_has_no_steps() -> None:
    with pytest.raises(ValueError, match="never called"):
        halves(jit(program))
    with pytest.raises(ValueError, match=r"was not made by thunder\.jit"):
        halves(program)
