"""Which rows several blocks share, and how many."""

from __future__ import annotations

from functools import partial, reduce

import pytest

from tests.programs import H200, chain, cubin_of, expand, total, unsqueeze
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.schedule import rows


@pytest.mark.parametrize(
    ("count", "columns", "splits"),
    [
        (1, 8192, 1),  # one piece
        (1, 3 * 8192, 1),  # as soon done by one block
        (1, 3 * 8192 + 3, 1),  # what is no vector is beside those of a piece
        (1, 3 * 8192 + 4, 4),
        (1, 1 << 20, 128),
        (1, (1 << 20) + 3, 128),
        (1, (1 << 20) + 4, 129),
        (131, 1 << 15, 4),
        (1, 1 << 23, 1024),
        (1, 1 << 24, 1024),  # of large blocks
        (1, 1 << 26, 4096),
        (131, 1 << 19, 64),
        (131, (1 << 19) + 3, 64),
        (131, (1 << 19) + 4, 65),
        (8 * 132 - 1, 1 << 16, 8),
        (8 * 132, 1 << 16, 1),  # rows enough for every multiprocessor to have many
    ],
)
def test_rows_are_cut_into_pieces_of_one_block(count: int, columns: int, splits: int) -> None:
    x = floats(count, columns)
    assert rows.schedule(segment_of([x], total(x, 1)), H200).splits == splits


@pytest.mark.parametrize(
    ("weights", "pieces"), [(0, "1024 threads a piece, 4096"), (2, "256 threads a piece, 8192")]
)
def test_blocks_are_large_where_pieces_are_many(weights: int, pieces: str) -> None:
    """And what threads load of each is not much, with what all rows of a plane share."""
    x, shared = floats(8192, 8192), [floats(8192) for _ in range(weights)]
    summed = total(reduce(partial(call, "add"), shared, x), 0, 1)
    assert f"{pieces} pieces a row" in str(rows.schedule(segment_of([x, *shared], summed), H200))


def test_the_pieces_of_a_row_are_equal() -> None:
    """A channel of a batch norm: 25088 vectors, of which a piece of 2048 would be left to the last
    block only in part."""
    x = halves(256, 64 * 56 * 56)
    planned = rows.schedule(segment_of([x], total(x, 1)), H200)
    assert (planned.splits, lower_rows(planned, strict=False).vectors_per_split) == (13, 1930)


@pytest.mark.parametrize("stores", [False, True])
def test_pieces_that_nobody_keeps_are_read_past_the_caches(stores: bool) -> None:
    x, bias = halves(4, 1 << 16), halves(4, 1)
    summed = total(call("mul", x, expand(bias, 4, 1 << 16)), 1)
    found = [summed, chain(x, "neg")] if stores else [summed]
    planned = rows.schedule(segment_of([x, bias], *found), H200)
    loads = [line for line in str(lower_rows(planned, strict=False)).splitlines() if "load" in line]
    assert planned.splits > 1
    assert len(loads) == 2
    assert [", streaming" in line for line in loads] == [not stores and "8 x" in n for n in loads]


def test_two_operands_halve_a_piece() -> None:
    x, y = halves(1, 1 << 20), halves(1, 1 << 20)
    one, two = (
        rows.schedule(segment_of([x, y], total(tv, 1)), H200) for tv in (x, call("mul", x, y))
    )
    assert (one.splits, two.splits) == (64, 128)


def test_a_row_that_is_read_again_stays_with_its_block() -> None:
    x = floats(4, 1 << 16)
    spread = expand(unsqueeze(total(x, 1), 1), 4, 1 << 16)
    assert rows.schedule(segment_of([x], chain(spread, "neg")), H200).splits == 1


def test_a_stored_row_that_needs_no_sum_may_be_shared() -> None:
    x = floats(4, 1 << 16)
    found = rows.schedule(segment_of([x], total(x, 1), chain(x, "neg")), H200)
    assert found.splits == 8
    assert "8 pieces a row" in str(found)


@pytest.mark.parametrize(
    ("shape", "dims", "expected"),
    [
        ((64, 256, 3136), (0, 2), True),
        ((8, 256, 16, 3136), (0, 1, 3), True),
        ((6, 64, 16, 6272), (1, 3), False),  # the channels of an image, then those of the next
        ((64, 200704), (1,), False),
    ],
)
def test_blocks_take_the_pieces_of_rows_as_they_lie_in_memory(
    shape: tuple[int, ...], dims: tuple[int, ...], expected: bool
) -> None:
    x = halves(*shape)
    planned = rows.schedule(segment_of([x], total(x, *dims)), H200)
    assert planned.splits > 1
    assert planned.are_pieces_outermost is expected
    assert ("one after another over all rows" in str(planned)) is expected
    kernel = lower_rows(planned, strict=False)
    assert (", outermost" in str(kernel)) is expected
    assert ("const int split = blockIdx.x / " in emit(kernel).text) is expected


def test_two_large_blocks_fit_on_a_multiprocessor_unless_functions_take_registers() -> None:
    x = halves(1 << 26)
    plain, costly = (
        lower_rows(rows.schedule(segment_of([x], call("max", tv, dims=(0,))), H200), strict=False)
        for tv in (chain(x, "neg"), chain(x, "tanh"))
    )
    assert (plain.blocks_at_once, costly.blocks_at_once) == (2, None)
    made = cubin_of(plain)
    assert made.registers == 32
    assert made.spill_bytes == 0
