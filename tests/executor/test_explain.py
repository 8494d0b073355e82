"""explain(jfn): every symbol with its region or its reason."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import jit
from thunder_fuser import explain


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    a = torch.sin(x) * 2
    b = torch.cumprod(a, 0)
    return (b + y).sum() + x.t()[0].sum(0)


def test_each_symbol_has_a_verdict_and_the_users_line() -> None:
    jfn = jit(program)
    jfn(torch.randn(13, 50), torch.randn(13, 50))
    text = explain(jfn)
    assert any(
        line.split()[1:2] == ["sin"] and "in region TF0" in line and __file__ in line
        for line in text.splitlines()
    )
    assert "outside: no rule for cumprod" in text
    assert "region TF0: 2 symbols, 1 inputs, 1 outputs, on cpu" in text


def test_regions_left_to_torch_say_so() -> None:
    jfn = jit(lambda x: torch.cumprod(torch.sin(x.t()), 0))
    jfn(torch.randn(3, 5))
    text = explain(jfn)
    assert "outside: no rule for cumprod" in text


def test_the_backward_is_listed() -> None:
    jfn = jit(lambda x: torch.sin(x) * x)
    jfn(torch.randn(3, 5, requires_grad=True)).sum().backward()
    text = explain(jfn)
    forward, backward = text.split("backward:")
    assert "in region TF0" in forward
    assert "in region TF1" in backward


def test_a_function_that_never_ran_is_refused() -> None:
    with pytest.raises(ValueError, match="never called"):
        explain(jit(program))
    with pytest.raises(ValueError, match=r"thunder\.jit"):
        explain(program)
