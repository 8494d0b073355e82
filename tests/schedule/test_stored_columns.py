"""Whole columns are stored where they are read, in whatever order of their dims."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.devices import ORDERS
from tests.programs import (
    H200,
    cat,
    chain,
    check,
    expand,
    fusion,
    like,
    permute,
    piece,
    total,
    unsqueeze,
    whole,
)
from tests.schedule.segments import floats, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import columns, kept_columns


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


def gated(x: TensorView, bias: TensorView, g: TensorView) -> tuple[TensorView, TensorView]:
    """The gradients of `relu(a) * b`, which are the halves of `x + bias`, of it and of the bias."""
    size = g.shape[1]
    a, b = (call("add", *(piece(tv, 1, k, k + size) for tv in (x, bias))) for k in (0, size))
    ends = call("mul", chain(a, "relu"), g), call("mul", b, g)
    return cat(*ends, dim=1), cat(*(total(end, 0) for end in ends), dim=0)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("size", [16, 13])
def test_both_halves_of_a_gate_are_stored_beside_their_sums(size: int) -> None:
    given = whole(70, 2 * size), whole(1, 2 * size), whole(70, size)
    x, bias, g = like(*given)
    found = gated(x, expand(bias, 70, 2 * size), g)
    plan = check(fusion([x, bias, g], *found), *given, orders=ORDERS)
    (segment,) = plan.segmented.segments
    schedule = columns.schedule(segment, H200)
    assert [len(schedule.full), len(schedule.stores)] == [2, 2]


@pytest.mark.parametrize(
    "result",
    [
        lambda x, y: chain(y, "neg"),  # reads no element that is summed
        lambda x, y: cat(*(unsqueeze(tv, 2) for tv in (chain(x, "neg"), x)), dim=2),  # in turns
        lambda x, y: cat(*[chain(x, "neg")] * 5, dim=1),  # too many
    ],
)
def test_other_results_are_no_parts_of_a_plane(result: Callable[..., TensorView]) -> None:
    x, y = floats(40, 64), floats(80, 64)
    segment = segment_of([x, y], total(x, 0), result(x, y))
    assert "is no 64 columns" in (columns.reject(segment, H200) or "")
