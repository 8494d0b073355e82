"""Where rows live: registers, shared memory, or nowhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.programs import H200
from tests.schedule.segments import floats
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.residency import Residency, Row, beside_sums, of_rows

X, Y = floats(1), floats(1)


def halves_of(columns: int, count: int = 1) -> Row:
    """A row of 16-bit elements in each of `count` tensors."""
    return Row(columns // 8, 8, dict.fromkeys((X, Y)[:count], 4))


@pytest.mark.parametrize(
    ("columns", "threads"), [(64, 2), (4096, 128), (8192, 256), (16384, 256), (65536, 1024)]
)
def test_registers_hold_a_row(columns: int, threads: int) -> None:
    assert of_rows(halves_of(columns), H200) == Residency(threads, frozenset({X}))


@pytest.mark.parametrize(("columns", "threads"), [(16384, 256), (65536, 512)])
def test_long_rows_may_be_read_again_instead(columns: int, threads: int) -> None:
    again = RowParameters(keeps=False)
    assert of_rows(halves_of(columns), H200, again) == Residency(threads)
    assert of_rows(halves_of(8192), H200, again) == of_rows(halves_of(8192), H200)


def test_shared_memory_holds_what_registers_do_not() -> None:
    found = of_rows(halves_of(65536, count=2), H200)
    assert len(found.registers) == len(found.shared) == 1
    assert found.registers | found.shared == {X, Y}
    assert (found.threads, found.slots, found.blocks) == (1024, 1, 1)


@pytest.mark.parametrize("columns", [200000, 65536 * 4])
def test_a_row_beyond_both_is_in_neither(columns: int) -> None:
    assert of_rows(halves_of(columns, count=2), H200) == Residency(1024)


def test_a_smaller_machine_holds_less() -> None:
    small = replace(H200, shared_bytes=99 * 1024)
    assert of_rows(halves_of(65536, count=2), small) == Residency(1024)


@pytest.mark.parametrize(
    ("columns", "threads", "slots", "blocks"),
    [
        (64, 128, 6, 2),  # 2 KiB in a block's slot
        (4096, 512, 6, 2),
        (16384, 256, 3, 2),  # 32 KiB a row
        (24576, 512, 3, 1),
    ],
)
def test_rows_are_on_their_way_while_one_is_summed(
    columns: int, threads: int, slots: int, blocks: int
) -> None:
    found = beside_sums(halves_of(columns), sums=1, turns=64, target=H200)
    assert found == Residency(threads, frozenset(), frozenset({X}), slots, blocks)


def test_a_block_has_no_more_slots_than_rows() -> None:
    found = beside_sums(halves_of(4096), sums=1, turns=3, target=H200)
    assert found is not None
    assert found.slots == 3


def test_little_shared_memory_has_fewer_slots_or_none() -> None:
    row = halves_of(16384)
    found = beside_sums(row, 1, 64, replace(H200, shared_bytes=99 * 1024))
    assert found is not None
    assert (found.slots, found.blocks) == (2, 1)
    assert beside_sums(row, 1, 64, replace(H200, shared_bytes=64 * 1024)) is None


def test_more_sums_leave_room_for_shorter_rows_only() -> None:
    assert beside_sums(halves_of(16384, count=2), 1, 64, H200) is not None
    assert beside_sums(halves_of(16384, count=2), 3, 64, H200) is None
