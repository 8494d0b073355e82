"""Which short rows pass through shared memory while blocks walk them, and how."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.programs import SMALL, expand, flip, ints, permute, reshape, total, unsqueeze
from tests.schedule.segments import floats, halves, integers, segment_of
from tests.schedule.test_sides import dealt
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.reductions import SIDES, WALKED
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import apply, call, tensor
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import op
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.row_schedule import RowSchedule
from thunder_fuser.target import Target

PREFERRED = RowParameters()


def scheduled(
    x: TensorView,
    *down: TensorView,
    target: Target = SMALL,
    lies: dict[TensorView, Layout] | None = None,
    parameters: RowParameters = PREFERRED,
) -> RowSchedule:
    """Rows of x less their sums, beside the sums `down`."""
    rest = call("sub", x, expand(unsqueeze(total(x, 1), 1), *x.shape))
    return rows.schedule(segment_of([x], rest, *down, lies=lies), target, parameters)


def test_a_turn_is_a_stretch_of_neighbours() -> None:
    first, second, *_ = str(scheduled(halves(100_003, 63))).splitlines()
    assert first == (
        "rows over group{48}, turn{66}, side{32}, vector{63}, "
        "T0 in registers and through shared memory, 3 turns at a time"
    )
    assert second == (
        "  8 threads a row, 32 rows a block, 6 of them on a multiprocessor, those of a warp 8 apart"
    )


def test_sums_that_pass_through_other_shapes_are_those_of_their_rows() -> None:
    """As in the gradient of an instance norm; the last turn has not all of its rows."""
    count = 100_003
    x = halves(count, 63)
    shape = ints([1, count, 1])
    wide = call("broadcast_in_dim", total(x, 1), shape=shape, broadcast_dims=(1,))
    shaped = reshape(wide, count, 1)
    found = rows.schedule(segment_of([x], call("sub", x, expand(shaped, count, 63))), SMALL)
    assert found.is_staged
    assert found.axes.is_uneven


@pytest.mark.parametrize(("images", "of_image", "is_staged"), [(500, 51, True), (5, 5100, False)])
def test_what_repeats_from_image_to_image_comes_from_a_cache(
    images: int, of_image: int, is_staged: bool
) -> None:
    """A bias; of few images it is too large for that."""
    x, bias = halves(images, of_image, 63), halves(of_image, 63)
    y = call("add", x, expand(unsqueeze(bias, 0), *x.shape))
    rest = call("sub", y, expand(unsqueeze(total(y, 2), 2), *x.shape))
    found = rows.schedule(segment_of([x, bias], rest), SMALL)
    assert (found.axes.side is not None) == is_staged
    assert found.residency.registers == {x, bias}


def test_rows_that_wait_for_an_index_are_not_walked() -> None:
    """As of a cross entropy: a turn would wait for it, and for what lies there."""
    x, at = halves(100_000, 63), integers(100_000, 1)
    away = call("sub", x, expand(unsqueeze(total(x, 1), 1), *x.shape))
    chosen = call("take_along_axis", x, at, dim=1)
    found = rows.schedule(segment_of([x, at], total(call("exp", away), 1), chosen), SMALL)
    assert found.axes.side is None
    assert rows.schedule(segment_of([x], total(call("exp", away), 1)), SMALL).axes.side is not None


@pytest.mark.parametrize("columns", [63, 257])
def test_rows_are_scanned_in_runs(columns: int) -> None:
    """Also those that are shifted elsewhere."""
    x = halves(100_003, columns)
    scan = call("cumsum", x, dim=1, reverse=False)
    found = rows.schedule(segment_of([x], scan), SMALL)
    assert found.is_staged
    assert found.axes.has_runs
    assert not rows.schedule(
        segment_of([x], scan), SMALL, RowParameters(stretches=False)
    ).axes.has_runs
    whole = halves(100_003, 64)
    scan = call("cumsum", whole, dim=1, reverse=False)
    assert not rows.schedule(segment_of([whole], scan), SMALL).is_staged


def test_sums_of_two_directions_leave_registers_to_fewer_blocks() -> None:
    x = halves(100_003, 63)
    both = [call("cumsum", x, dim=1, reverse=reverse) for reverse in (False, True)]
    made = call("add", *both)
    blocks = [rows.schedule(segment_of([x], y), SMALL).residency.blocks for y in (both[0], made)]
    assert blocks == [5, 4]


def test_threads_have_more_of_rows_that_are_only_read() -> None:
    x = halves(100_003, 63)
    assert scheduled(x).residency.threads == 8
    found = rows.schedule(segment_of([x], total(call("exp", x), 1)), SMALL)
    assert found.is_staged
    assert found.residency.threads == 2


def test_rows_beside_sums_are_walked_as_they_were_dealt() -> None:
    x = halves(64 * 16 * 40, 50)
    found = scheduled(x, dealt(x, 16, 64))
    assert found.is_staged
    assert (found.axes.group.size, found.axes.turn.size, found.rows_per_block) == (16, 40, 64)
    assert (found.axes.lanes, found.residency.threads, found.residency.slots) == (2, 4, 3)


def of_images(x: TensorView, blocks: int, sides: int) -> TensorView:
    """Sums of each of so many `sides` of a block, the same rows of one image after the other."""
    rows_of_plane, columns = x.shape
    turns = rows_of_plane // (blocks * sides)
    pieces = permute(reshape(x, turns, blocks, sides, columns), 1, 2, 0, 3)
    attrs = {"dims": (2,), WALKED: rows_of_plane, SIDES: sides}
    made = apply(op("sum"), [pieces], attrs)
    assert isinstance(made, TensorView)
    return made


def test_sums_of_what_images_share_are_of_each_row_of_a_turn() -> None:
    x = halves(60 * 784, 49)
    first, second, phase, down, _, stored = str(scheduled(x, of_images(x, 28, 56))).splitlines()
    assert first == (
        "rows over group{28}, turn{30}, side{56}, vector{49}, "
        "T0 in registers and through shared memory, 3 turns at a time"
    )
    assert second == "  4 threads a row, 56 rows a block, 2 of them on a multiprocessor"
    assert phase.endswith("of T0[1568*turn + 56*group + side, vector]")
    assert down.startswith("  down columns: T7[group, side, vector] of ")
    assert stored.startswith("  store one element a column: ")
    assert stored.endswith("[group, side, vector]")


@pytest.mark.parametrize(
    ("changes", "parameters"),
    [({"max_cluster": 1}, PREFERRED), ({}, RowParameters(stretches=False))],
)
def test_rows_of_images_are_walked_in_no_other_way(
    changes: dict[str, int], parameters: RowParameters
) -> None:
    x = halves(60 * 784, 49)
    target = replace(SMALL, **changes)
    with pytest.raises(Rejected, match="images that pass through no shared memory"):
        scheduled(x, of_images(x, 28, 56), target=target, parameters=parameters)


def test_rows_of_images_that_lie_apart_are_not_walked_so() -> None:
    x = halves(60 * 784, 49)
    with pytest.raises(Rejected, match="images that pass through no shared memory"):
        scheduled(x, of_images(x, 28, 56), lies={x: Layout(x.shape, (56, 1))})


def test_rows_that_were_dealt_otherwise_are_not() -> None:
    x = halves(64 * 16 * 40, 50)
    assert not scheduled(x, dealt(x, 16, 32)).is_staged


@pytest.mark.parametrize("rows_of_plane", [100_003, 6400])
def test_two_turns_are_on_their_way_if_there_are_as_many(rows_of_plane: int) -> None:
    found = scheduled(halves(rows_of_plane, 63))
    assert found.is_staged
    assert found.residency.slots == min(3, found.axes.turn.size + 1)
    assert scheduled(halves(100_003, 63), parameters=RowParameters(slots=3)).residency.slots == 4


def plain(columns: int = 63) -> TensorView:
    return halves(100_000, columns)


OTHERS = {
    "rows of whole vectors": (plain(64), SMALL),
    "rows that a warp does not hold": (plain(449), SMALL),
    "a plane that a cache holds": (halves(1000, 63), SMALL),
    "doubles": (tensor(DataType.Double, 100_000, 63), SMALL),
    "GPUs that copy no stretches": (plain(), replace(SMALL, max_cluster=1)),
}


@pytest.mark.parametrize("case", OTHERS)
def test_others_are_not_walked_so(case: str) -> None:
    x, target = OTHERS[case]
    assert scheduled(x, target=target).axes.side is None


def test_rows_that_lie_apart_are_not_walked_so() -> None:
    x = plain()
    apart = Layout(x.shape, (64, 1))
    assert scheduled(x).is_staged
    assert not scheduled(x, lies={x: apart}).is_staged


def test_rows_that_are_read_backwards_are_not_walked_so() -> None:
    x = plain()
    rest = call("sub", flip(x, 1), expand(unsqueeze(total(x, 1), 1), *x.shape))
    assert rows.schedule(segment_of([x], rest), SMALL).axes.side is None


def test_rows_of_a_transposed_plane_are_not_walked_so() -> None:
    x = halves(63, 100_000)
    assert not scheduled_of(permute(x, 1, 0), x).is_staged


def scheduled_of(rows_of: TensorView, x: TensorView) -> RowSchedule:
    return rows.schedule(segment_of([x], total(rows_of, 1)), SMALL)


def test_what_shared_memory_does_not_hold_is_not_walked_so() -> None:
    tensors = [floats(100_003, 255) for _ in range(9)]
    whole = tensors[0]
    for other in tensors[1:]:
        whole = call("add", whole, other)
    rest = call("sub", whole, expand(unsqueeze(total(whole, 1), 1), *whole.shape))
    assert not rows.schedule(segment_of(tensors, rest), SMALL).is_staged


def test_few_rows_beside_which_images_repeat_some_are_a_stretch_of_their_block() -> None:
    x, bias = halves(64, 32, 49), halves(32, 49)
    both = call("add", x, expand(unsqueeze(bias, 0), *x.shape))
    rest = call("sub", both, expand(unsqueeze(total(both, 2), 2), *x.shape))
    found = rows.schedule(segment_of([x, bias], rest), SMALL)
    assert found.is_staged
    assert found.axes.side is None
