"""What a thread of columns cannot read: the sums of others, and its own too early."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.programs import H200, chain, flip, ints, total
from tests.schedule.segments import floats, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import columns


def spread(reduced: TensorView, rows: int) -> TensorView:
    """One value per column, for every row of it."""
    shape = ints([rows, *reduced.shape])
    return call("broadcast_in_dim", reduced, shape=shape, broadcast_dims=(1,))


x, row = floats(40, 64), floats(1, 64)
REFUSED = {
    "two levels": (
        segment_of([x], total(call("sub", x, spread(total(x, 0), 40)), 0)),
        "a column sum needs another one of the same segment",
    ),
    "the plane needs the sum": (
        segment_of([x], call("sub", x, spread(total(x, 0), 40))),
        "a column sum needs another one of the same segment",
    ),
    "another column": (
        segment_of([x], chain(flip(total(x, 0), 0), "neg")),
        "a column sum is read at another column",
    ),
    "the sums turned round": (
        segment_of([x], flip(total(x, 0), 0)),
        "a column sum is read at another column",
    ),
    "a running sum of one row, in place": (
        segment_of([row], writes=[(call("cumsum", row, dim=0, reverse=False), row)]),
        "a running sum is read behind its rows",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_its_reason(case: str) -> None:
    segment, reason = REFUSED[case]
    assert columns.reject(segment, H200) == reason


@pytest.mark.parametrize(
    "value",
    [
        lambda a, t: call("add", flip(t, 0), total(a, 0)),
        lambda a, t: total(call("mul", a, t), 0),
    ],
)
def test_an_in_place_target_that_others_read_is_refused(
    value: Callable[[TensorView, TensorView], TensorView],
) -> None:
    target = floats(64)
    segment = segment_of([x, target], writes=[(value(x, target), target)])
    assert columns.reject(segment, H200) == (
        "an in-place target is read by others than the thread that writes it"
    )
