"""Whole columns are stored where they are read, in whatever order of their dims."""

from __future__ import annotations

import pytest

from tests.programs import H200, expand, permute, total, unsqueeze
from tests.schedule.segments import floats, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import kept_columns


def centred(x: TensorView) -> TensorView:
    return call("sub", x, expand(unsqueeze(total(x, 1), 1), *x.shape))


def stored(value: TensorView, x: TensorView) -> str:
    schedule = str(kept_columns.schedule(segment_of([x], value), H200))
    (line,) = (line for line in schedule.splitlines() if "store whole columns" in line)
    return line[line.index("[") :]


@pytest.mark.parametrize(
    ("order", "place"),
    [
        ((0, 1, 2), "[(vector/9), row, 4*(vector%9) + lane]"),
        ((1, 0, 2), "[row, (vector/9), 4*(vector%9) + lane]"),
        ((0, 2, 1), "[(vector/9), 4*(vector%9) + lane, row]"),
    ],
)
def test_columns_may_be_stored_in_another_order(order: tuple[int, ...], place: str) -> None:
    x = floats(9, 48, 36)
    assert stored(permute(centred(x), *order), x) == place


def test_a_square_is_stored_where_its_columns_are() -> None:
    """Its shape is that of what is summed, which is turned."""
    x = floats(9, 40, 40)
    turned = permute(x, 0, 2, 1)
    left = call("sub", turned, expand(unsqueeze(total(turned, 2), 2), *x.shape))
    segment = segment_of([x], permute(left, 0, 2, 1), call("neg", x))
    (line,) = (
        s for s in str(kept_columns.schedule_turned(segment, H200)).splitlines() if "store" in s
    )
    assert line.count("[(vector/10), row, 4*(vector%10) + lane]") == 2
