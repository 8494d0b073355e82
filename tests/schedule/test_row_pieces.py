"""Which pieces of rows the warps of the column template reduce beside their columns."""

from __future__ import annotations

import pytest

from tests.presegment.test_both_ways import joined
from tests.programs import H200, chain, total
from tests.schedule.segments import floats, segment_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.reductions import is_long
from thunder_fuser.ir.build import produce
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.both_ways import both_ways
from thunder_fuser.schedule import columns
from thunder_fuser.segment.segment import Segment


def segment(x: TensorView, lies: Layout | None = None, given: TensorView | None = None) -> Segment:
    """What pieces of rows, and columns, of `x` come to, which is made of what is `given`."""
    source = given or x
    ends = filter(is_long, both_ways(Fusion((source,), joined(x, 1, 0))).tensors)
    return segment_of([source], *ends, lies={} if lies is None else {source: lies})


def test_a_warp_has_a_vector_a_lane() -> None:
    x = floats(2048, 2048)
    first, threads, *_, last = str(columns.schedule(segment(x), H200)).splitlines()
    assert first == "columns over row{2048}, vector{512}, lane{4}"
    assert threads == "  32 threads across, 8 down, rows in 16 splits, 8 at a time"
    assert last == "  pieces of rows T2[row, (vector/32)], T4[row, (vector/32)]"


def test_lanes_of_rows_that_no_vector_divides_lie_a_warp_apart() -> None:
    x = floats(2053, 2045)
    found = columns.schedule(segment(x), H200)
    assert "128*(vector/32) + 32*lane + (vector%32)" in str(found)


def test_so_do_those_of_a_plane_that_begins_inside_a_vector() -> None:
    x = floats(2048, 2048)
    lies = Layout((2048, 2048), (2048, 1), 4)
    assert "32*lane" in str(columns.schedule(segment(x, lies), H200))


x = floats(2048, 2048)
WHOLE = segment(x)
TOPS, SUMS = (tv for tv in WHOLE.long if tv.ndim == 2)
HIGHEST, DOWN = (tv for tv in WHOLE.long if tv.ndim == 1)
REFUSED = {
    "one of two": ([TOPS, HIGHEST, DOWN], "pieces of rows beside other reductions"),
    "sums": ([TOPS, SUMS, HIGHEST, DOWN, total(x, 0)], "pieces of rows beside other reductions"),
    "other terms": (
        [TOPS, SUMS, HIGHEST, produce(DOWN.expr.op, [chain(x, "neg")], {"dims": (0,)})],
        "pieces of rows beside other terms",
    ),
    "read at once": (
        [chain(TOPS, "neg"), SUMS, HIGHEST, DOWN],
        "a result of shape [2048, 16] is no 2048 columns",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_its_reason(case: str) -> None:
    stored, reason = REFUSED[case]
    assert columns.reject(segment_of([x], *stored), H200) == reason
