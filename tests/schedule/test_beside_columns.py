"""Which sums over columns a block adds up while it walks a group of these."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest

from tests.programs import cat, chain, expand, pad, permute, reshape, total, unsqueeze
from tests.schedule.segments import floats, segment_of
from thunder_fuser.analysis.reductions import WALKED
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.schedule.kept_columns import schedule_turned
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import HOST


def parts(x: TensorView, groups: int, of: str = "sum", run: int = 16) -> TensorView:
    """The columns of x (columns, rows) dealt to so many groups, a run at a time, and summed."""
    columns, rows = x.shape
    rest = -columns % (groups * run)
    row = total(x, 0).definition if of == "sum" else call(of, x, dims=(0,)).definition
    assert row is not None
    assert row.op.family is Family.REDUCTION
    turns = (columns + rest) // (groups * run)
    padded = pad(x, [0, 0, 0, rest]) if rest else x
    dealt = permute(reshape(padded, turns, groups, run, rows), 1, 0, 2, 3)
    made = apply(row.op, [dealt], {"dims": (1, 2), WALKED: columns})
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
          4 threads across, 32 down, 3 blocks on a multiprocessor
          phase 0: T2[4*vector + lane] of T1[4*vector + lane, row]
          beside, of groups of columns: T9[group, row], T12[group, row] of \
T8[((vector/4)%3), (vector/12), 4*(vector%4) + lane, row], \
T11[((vector/4)%3), (vector/12), 4*(vector%4) + lane, row]
          store whole columns: T6[row, 4*vector + lane]""")


def test_columns_that_nobody_has_are_left_out_of_a_padded_deal() -> None:
    segment = beside(lambda x, left: [parts(x, 4)])
    assert "T10[group, row] of T1[4*vector + lane, row]" in str(schedule_turned(segment, HOST))


REFUSED = {
    "columns of two planes": (
        beside(lambda x, left: [parts(cat(x, x, dim=0), 3)]),
        "sums over other columns than a block walks",
    ),
    "groups of two sizes": (
        beside(lambda x, left: [parts(x, 3), parts(left, 6)]),
        "sums over other columns than a block walks",
    ),
    "groups that cut vectors": (
        beside(lambda x, left: [parts(x, 48, run=2)]),
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
