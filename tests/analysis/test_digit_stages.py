"""Which stages put an index in order, and the places of their blocks."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.digit_stages import (
    COUNTERS,
    HELD,
    LONG,
    LONGEST,
    MAX_BITS,
    MIN_BITS,
    ROUNDS,
    chunk_of,
    is_chunk,
    is_worth_stages,
    round_of,
    stages_of,
    threads_of,
)
from thunder_fuser.target import MAX_THREADS


@pytest.mark.parametrize(
    ("groups", "stages"),
    [
        (2, ((0, 5),)),  # a digit has no fewer values than a warp has threads
        (1000, ((0, 10),)),
        (1024, ((0, 10),)),
        (1025, ((0, 6), (6, 5))),
        (21845, ((0, 8), (8, 7))),
        (262144, ((0, 9), (9, 9))),
        (335544, ((0, 10), (10, 9))),
        (2**20, ((0, 10), (10, 10))),
        (2**20 + 1, ((0, 7), (7, 7), (14, 7))),
    ],
)
def test_stages_have_as_many_bits_each_but_the_last_one(
    groups: int, stages: tuple[tuple[int, int], ...]
) -> None:
    assert stages_of(groups) == stages
    low, bits = stages[-1]
    assert groups <= 1 << low + bits
    assert bits >= MIN_BITS


@pytest.mark.parametrize("bits", range(MIN_BITS, MAX_BITS + 1))
def test_each_warp_has_a_counter_of_each_digit(bits: int) -> None:
    threads = threads_of(bits)
    assert threads == (512 if bits == MAX_BITS else MAX_THREADS)
    assert threads // 32 << bits <= COUNTERS


@pytest.mark.parametrize(
    ("places", "bits", "chunk", "size"),
    [
        (1, 9, 1024, 1024),
        (1, 10, 512, 512),
        (87381, 8, 1024, 1024),
        (2**20, 9, 8192, 8192),
        (2**20, 10, 8192, 8192),
        (2**20 + 1, 9, 10240, 5120),  # two rounds
        (3 * 2**20, 10, 24576, 8192),
        (LONGEST, 10, 32768, 8192),
    ],
)
def test_a_thread_has_the_same_number_of_places_in_each_round(
    places: int, bits: int, chunk: int, size: int
) -> None:
    assert chunk_of(places, bits) == chunk
    assert is_chunk(chunk, bits)
    assert round_of(chunk) == size


@pytest.mark.parametrize("chunk", [0, 1000, 9216, 40960])
def test_a_block_has_whole_rounds_of_whole_warps(chunk: int) -> None:
    assert not is_chunk(chunk, 9)


def test_places_of_a_block_have_16_bits_and_fit_where_its_counters_are() -> None:
    assert ROUNDS * HELD < 1 << 16
    assert 4 * HELD <= 2 * COUNTERS


@pytest.mark.parametrize(
    ("places", "groups", "is_worth"),
    [
        (LONG - 1, 1000, False),
        (LONG, 1000, True),
        (2 * LONG - 1, 32000, False),
        (2 * LONG, 32000, True),
        (LONG, 1, False),
        (LONG, 0, False),
        (LONGEST + 1, 1000, False),
        (16384, 128256, False),  # two blocks of each multiprocessor
        (16384, 300000, True),
        (LONG, 2**30 + 1, False),
        (1, 2**40, False),
    ],
)
def test_a_long_index_is_worth_stages(places: int, groups: int, is_worth: bool) -> None:
    assert is_worth_stages(places, groups) is is_worth
