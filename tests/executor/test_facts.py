"""fuser.facts and fuser.statistics: what a function came to be, and what that cost."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import thunder
import torch

from thunder_fuser import fuser
from thunder_fuser.executor.facts import PassFacts
from thunder_fuser.executor.statistics import Statistics

SIZE = 7 * 65 * 4  # bytes of an argument


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.cumprod(torch.softmax(torch.sin(x) * y, -1), 0) * 2


def called(function: Callable[..., Any] = program, **options: Any) -> Callable[..., Any]:
    jfn = thunder.jit(function, executors=[fuser], **options)
    jfn(torch.randn(7, 65), torch.randn(7, 65))
    return jfn


def test_a_pass_is_told_in_numbers() -> None:
    options = dict(fuser_single_op=True)
    forward = fuser.facts(called(**options)).forward
    assert replace(forward, shared_bytes=None) == PassFacts(
        regions=2,
        segments=2,
        kernels=2,
        unclaimed_ops=1,  # the cumulative sum
        bytes_moved=3 * SIZE + 2 * SIZE,
        bytes_at_cuts=0,
        registers=None,
        spill_bytes=None,
        shared_bytes=None,
    )
    assert fuser.facts(called(**options)).backward is None


def test_what_segments_hand_over_is_counted() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1).sum(0) + y

    found = fuser.facts(called(function))
    assert found.forward.segments > 1
    assert found.forward.bytes_at_cuts > 0
    assert found.whole == found.forward


def test_forward_and_backward_add_up() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.sin(x) * y

    jfn = thunder.jit(function, executors=[fuser])
    x, y = (torch.randn(3, 5, requires_grad=True) for _ in range(2))
    jfn(x, y).sum().backward()
    found = fuser.facts(jfn)
    assert found.backward is not None
    assert (found.forward.kernels, found.backward.kernels) == (1, 1)
    assert found.whole.kernels == 2
    assert found.whole.bytes_moved == found.forward.bytes_moved + found.backward.bytes_moved
    # sin(x) * y: three tensors forward; three are read and two written backward, of which the
    # cotangent of a sum is one element
    assert found.forward.bytes_moved == 3 * 60
    assert found.backward.bytes_moved == 4 * 60 + 4


def test_a_function_that_never_ran_has_no_facts() -> None:
    with pytest.raises(ValueError, match="was never called"):
        fuser.facts(thunder.jit(program, executors=[fuser]))
    with pytest.raises(ValueError, match=r"was not made by thunder\.jit"):
        fuser.facts(program)


def test_statistics_tell_what_happened_in_between() -> None:
    factor = torch.rand(()).item()  # a kernel of its own
    before = fuser.statistics()
    jfn = called(lambda x, y: torch.sin(x) * y * factor, fuser_cache="off")
    first = fuser.statistics() - before
    assert (first.plans, first.compiled, first.disk_hits) == (1, 1, 0)
    assert min(first.fusion_seconds, first.generation_seconds, first.compilation_seconds) > 0
    middle = fuser.statistics()
    jfn(torch.randn(7, 65), torch.randn(7, 65))
    assert fuser.statistics() - middle == Statistics()
