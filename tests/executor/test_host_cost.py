"""What one steady call of a region costs the host, counted in calls and not in time."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from types import FrameType
from typing import Any

import torch

from tests.executor.jitted import jit, region
from tests.executor.test_rope import rope
from thunder_fuser.executor.region import FusedRegion

# Measured on an H200: 6.7 us for one kernel and one output, 9.9 us for RoPE's three outputs. About
# 0.1 us of it is each function called: what adds to these counts is seen there.
PYTHON_CALLS = 6  # region, key, program, plan and launch
CALLS = 20  # of two inputs and one output, built-in functions included
CALLS_PER_TENSOR = 4  # a stride or an allocation, a pointer, a bit, and one spare


def calls(call: FusedRegion, *args: torch.Tensor) -> Counter[str]:
    """How often one call enters Python functions ("call") and built-in ones ("c_call")."""
    found: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: Any) -> None:
        found[event] += 1

    gc.disable()  # what it collects may call back into Python, here of all places
    sys.setprofile(count)
    try:
        call(*args)
    finally:
        sys.setprofile(None)
        gc.enable()
    found["c_call"] -= 1  # the call that ends the count
    return found


def steady(jfn: Any, *args: torch.Tensor) -> Counter[str]:
    """The calls of the last region once everything about them is known."""
    for _ in range(3):
        jfn(*args)
    found = region(jfn)
    counts = (calls(found, *(args[k] for k in range(len(found.inputs)))) for _ in range(3))
    return min(counts, key=Counter.total)  # a weak reference that dies meanwhile calls back too


def test_a_steady_call_of_one_kernel_enters_few_functions() -> None:
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    found = steady(jit(lambda x, y: torch.sin(x) * y, fuser_evaluator=False), x, y)
    assert found["call"] <= PYTHON_CALLS
    assert found["call"] + found["c_call"] <= CALLS


def test_further_tensors_cost_three_calls_each() -> None:
    args = [torch.randn(2, 5, 64), torch.randn(5, 4), torch.randn(5, 4)]
    found = steady(jit(rope(4, 2, 8, 4), fuser_evaluator=False), *args)
    assert found["call"] <= PYTHON_CALLS
    assert found["call"] + found["c_call"] <= CALLS + 3 * CALLS_PER_TENSOR
