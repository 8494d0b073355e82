"""Which sums over columns a block adds up while it walks a group of these."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from tests.programs import chain, expand, permute, reshape, total, unsqueeze
from tests.schedule.segments import floats, segment_of
from thunder_fuser.analysis.reductions import WALKED
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.schedule.kept_columns import schedule_turned
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import HOST


def parts(x: TensorView, groups: int, of: str = "sum") -> TensorView:
    """x (columns, rows) in so many stretches of columns, each summed."""
    columns, rows = x.shape
    row = total(x, 0).definition if of == "sum" else call(of, x, dims=(0,)).definition
    assert row is not None
    assert row.op.family is Family.REDUCTION
    dealt = reshape(x, groups, columns // groups, rows)
    made = apply(row.op, [dealt], {"dims": (1,), WALKED: columns})
    assert isinstance(made, TensorView)
    return made


def beside(sums: Callable[[TensorView, TensorView], list[TensorView]]) -> Segment:
    """x (64, 96), read down its columns, less what these sum up to, beside `sums` of both."""
    x = floats(64, 96)
    turned = permute(x, 1, 0)
    left = call("sub", turned, expand(unsqueeze(total(turned, 1), 1), 96, 64))
    return segment_of([x], permute(left, 1, 0), *sums(turned, left))


def test_sums_are_stored_for_each_group_and_row() -> None:
    segment = beside(lambda x, left: [parts(x, 3), parts(left, 3, "max")])
    assert str(schedule_turned(segment, HOST)) == dedent("""\
        kept columns over row{64}, vector{24}, lane{4}, group{3}
          8 threads across, 16 down
          phase 0: T2[4*vector + lane] of T1[4*vector + lane, row]
          beside, of groups of columns: T8[group, row], T10[group, row] of \
T7[(vector/8), 4*(vector%8) + lane, row], T9[(vector/8), 4*(vector%8) + lane, row]
          store whole columns: T6[row, 4*vector + lane]""")


REFUSED = {
    "groups of two sizes": (
        beside(lambda x, left: [parts(x, 3), parts(left, 6)]),
        "sums over other columns than a block walks",
    ),
    "groups that cut vectors": (
        beside(lambda x, left: [parts(x, 48)]),
        "sums over other columns than a block walks",
    ),
    "what follows from a sum": (
        beside(lambda x, left: [chain(parts(x, 3), "neg")]),
        "a sum over columns is read before all blocks are done",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_sums_are_refused(name: str) -> None:
    segment, why = REFUSED[name]
    with pytest.raises(Rejected, match=why):
        schedule_turned(segment, HOST)
