"""What the modules of kernels show is what these print."""

from __future__ import annotations

from types import ModuleType

import pytest

from tests.programs import H200, chain, ints, total
from tests.schedule.segments import floats, halves, integers, segment_of
from tests.schedule.test_rows import centred
from thunder_fuser.ir.build import call
from thunder_fuser.kernel import column_ir, group_ir, kept_ir, map_ir, picks, row_ir
from thunder_fuser.kernel.templates import draft
from thunder_fuser.segment.segment import Segment


def mapped() -> Segment:
    x = halves(1024, 64)
    return segment_of([x], chain(x, "exp"))


def rows() -> Segment:
    x = floats(64, 4096)
    return segment_of([x], centred(x))


def columns() -> Segment:
    x = floats(4096, 1024)
    return segment_of([x], total(x, 0))


def kept() -> Segment:
    x = floats(256, 4096)
    sums = call("broadcast_in_dim", total(x, 0), shape=ints([256, 4096]), broadcast_dims=(1,))
    return segment_of([x], call("sub", x, sums))


def grouped() -> Segment:
    x, order, ends = floats(60, 64), integers(60), integers(9)
    return segment_of([x, order, ends], call("group_sum", x, order, ends, dim=0, skip=-1))


def picked() -> Segment:
    x, index = halves(4096, 4096), integers(4096, 4096)
    return segment_of([x, index], call("pick_sum", x, index, dim=1, count=ints([4096])))


@pytest.mark.parametrize(
    ("segment", "module"),
    [
        (mapped(), map_ir),
        (rows(), row_ir),
        (columns(), column_ir),
        (kept(), kept_ir),
        (grouped(), group_ir),
        (picked(), picks),
    ],
    ids=["map", "rows", "columns", "kept", "groups", "picks"],
)
def test_the_example_of_a_module_is_a_kernel(segment: Segment, module: ModuleType) -> None:
    assert str(draft(segment, H200, strict=False).lower(False)) in (module.__doc__ or "")
