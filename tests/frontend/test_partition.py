"""The partition of a definition beside the plan of the same arguments."""

from __future__ import annotations

import pytest
import torch

from tests.segment.test_stored_results import SHAPE, biased
from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.partition import partition
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.program import Program

CPU = torch.device("cpu")


def results_of(groups: list[list[TensorView]], outputs: tuple[TensorView, ...]) -> list[set[int]]:
    """Which outputs each group computes, by number."""
    return [{k for k, tv in enumerate(outputs) if tv in group} for group in groups]


@pytest.mark.parametrize("strict", [True, False])
def test_the_partition_is_the_plans(strict: bool) -> None:
    given = [torch.randn(SHAPE).to(torch.bfloat16) for _ in "yg"]
    program, options = biased(*given, DataType.BFloat16), Options(strict=strict, evaluator=True)
    plan = Program(program).plan(given, options, CPU).segmented
    found = partition(program, given, options, CPU)
    made = [list(segment.made) for segment in plan.segments]
    assert results_of(found, program.outputs) == results_of(made, plan.fusion.outputs) == [{0}, {1}]
    # Segment 1 computes the scores' gradient again, or reads the result.
    assert [len(group) for group in found] == ([9, 7] if strict else [9, 1])
