"""How many short rows a block walks side by side, and what its threads hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.programs import H200, expand, reshape, total, unsqueeze
from tests.schedule.segments import halves, segment_of
from thunder_fuser.analysis.reductions import WALKED
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import op
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.row_schedule import RowSchedule
from thunder_fuser.target import REGISTERS

UNSTAGED = RowParameters(stretches=False)


def dealt(tv: TensorView, parts: int, at_once: int) -> TensorView:
    """Sums down the columns of each of `parts` groups, which get `at_once` rows at a time."""
    count, columns = tv.shape
    pieces = reshape(tv, count // parts // at_once, parts, at_once, columns)
    return total(call("permute", pieces, dims=(1, 0, 2, 3)), 1, 2)


def scheduled(
    count: int,
    columns: int,
    at_once: int,
    sums: int = 1,
    parts: int = 512,
    parameters: RowParameters = UNSTAGED,
) -> RowSchedule:
    """Rows of g * w less x times what the row sums of all three, and `sums` down their columns."""
    x, g, w = halves(count, columns), halves(count, columns), halves(columns)
    scaled = call("mul", g, expand(unsqueeze(w, 0), count, columns))
    inner = total(call("mul", scaled, x), 1)
    moved = call("mul", x, expand(unsqueeze(inner, 1), count, columns))
    down = [call("mul", g, x), g, x, moved][:sums]
    summed = [dealt(tv, parts, at_once) for tv in down]
    segment = segment_of([x, g, w], call("sub", scaled, moved), *summed)
    return rows.schedule(segment, H200, parameters)


def test_neighbours_are_walked_at_once_each_by_a_part_of_a_warp() -> None:
    first, second, phase, down, whole, _ = str(scheduled(1 << 20, 64, 32)).splitlines()
    row = "16384*turn + 32*group + side"
    assert first == (
        "rows over group{512}, turn{64}, side{32}, vector{8}, lane{8}, "
        "T0, T5 in registers, 2 turns at a time"
    )
    assert second == "  8 threads a row, 32 rows a block, 4 of them on a multiprocessor"
    assert phase == f"  phase 0: T7[{row}] of T6[{row}, 8*vector + lane]"
    assert down.endswith("of T14[group, turn, side, 8*vector + lane]")
    assert whole == f"  store whole rows: T11[{row}, 8*vector + lane]"


def test_two_sums_leave_room_for_two_turns_where_threads_have_two_vectors() -> None:
    found = scheduled(1 << 20, 64, 32, sums=2)
    assert (found.residency.threads, found.rows_per_block, found.residency.batch) == (4, 32, 2)
    alone = scheduled(1 << 20, 64, 32, sums=2, parameters=replace(UNSTAGED, held=8))
    assert (alone.residency.threads, alone.rows_per_block, alone.residency.batch) == (8, 32, 1)


@pytest.mark.parametrize("sums", [1, 2, 3, 4])
@pytest.mark.parametrize(
    ("columns", "at_once", "parts"), [(64, 32, 512), (128, 16, 512), (256, 8, 512), (512, 8, 256)]
)
def test_blocks_that_are_to_fit_have_registers(
    columns: int, at_once: int, parts: int, sums: int
) -> None:
    found = scheduled(1 << 18, columns, at_once, sums, parts)
    threads = found.residency.threads * found.rows_per_block
    blocks = found.residency.blocks
    assert blocks is not None
    assert 40 * threads * blocks <= REGISTERS
    assert blocks * 132 >= parts or sums > 3


@pytest.mark.parametrize(("batch", "expected"), [(1, 1), (2, 2), (4, 4)])
def test_the_loads_of_a_turn_wait_for_those_of_a_batch(batch: int, expected: int) -> None:
    found = scheduled(1 << 20, 64, 32, parameters=replace(UNSTAGED, batch=batch))
    assert found.residency.batch == expected


@pytest.mark.parametrize(("parts", "expected"), [(512, 2), (256, 4), (128, 4)])
def test_fewer_blocks_load_more_turns_at_a_time(parts: int, expected: int) -> None:
    assert scheduled(1 << 20, 64, 32, parts=parts).residency.batch == expected


def test_a_batch_is_no_longer_than_the_walk() -> None:
    four = replace(UNSTAGED, batch=4)
    assert scheduled(64 * 512, 64, 32, parameters=four).residency.batch == 2


@pytest.mark.parametrize(
    ("columns", "at_once"),
    [
        (512, 6),  # six warps
        (64, 24),  # six
        (100, 8),  # vectors of four, 25 of them
        (1024, 0),  # a row of more vectors than a warp holds
        (512, 11),  # more than a block has
    ],
)
def test_rows_that_fill_no_warps_are_walked_one_after_another(columns: int, at_once: int) -> None:
    found = scheduled(512 * max(at_once, 1) * 40, columns, max(at_once, 1))
    is_beside = found.axes.side is not None
    assert is_beside == ((columns, at_once) in [(512, 6), (64, 24), (100, 8)])
    assert found.rows_per_block == (at_once if is_beside else 1)
    assert bool(found.residency.slots) != is_beside


def test_rows_of_less_than_a_warp_are_not_walked_one_after_another() -> None:
    with pytest.raises(Rejected, match="rows so short that a block has no work for its warps"):
        scheduled(512 * 12 * 40, 64, 12)  # a warp and a half, if threads had two vectors


def over_images(x: TensorView) -> TensorView:
    """The sums over images, as a walk of the rows of the plane."""
    count, rows, _ = x.shape
    attrs = {"dims": (1,), WALKED: count * rows}
    made = apply(op("sum"), [call("permute", x, dims=(1, 0, 2))], attrs)
    assert isinstance(made, TensorView)
    return made


def test_a_warp_has_a_row_of_many_images() -> None:
    """Their groups are more than a machine has blocks at a time."""
    x = halves(8, 4096, 1024)
    mine = over_images(x)
    found = rows.schedule(segment_of([x], total(x, 2), mine), H200)
    assert (found.axes.group.size, found.axes.turn.size, found.rows_per_block) == (4096, 1, 8)
    assert (found.residency.threads, found.residency.blocks) == (32, 2)


def test_odd_rows_of_images_are_shifted() -> None:
    x = halves(64, 512, 257)
    mine = over_images(x)
    found = rows.schedule(segment_of([x], total(x, 2), mine), H200)
    assert found.axes.is_shifted
    assert (found.residency.threads, found.rows_per_block) == (16, 16)
