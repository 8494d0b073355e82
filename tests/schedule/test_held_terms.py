"""How a block reads the terms of its rows window by window."""

from __future__ import annotations

import pytest

from thunder_fuser.schedule.held_terms import Held, held


@pytest.mark.parametrize(
    ("vectors", "batch"),
    [([4], 8), ([16], 4), ([2], 8), ([4, 4], 4), ([16, 16], 2), ([2] * 9, 0)],
)
def test_a_thread_asks_for_few_vectors_and_bytes_at_a_time(vectors: list[int], batch: int) -> None:
    found = held(8, 32, vectors, 32, 4000, 1000, 1)
    assert (0 if found is None else found.batch) == batch


def test_rows_of_few_terms_are_more() -> None:
    """Until those of a part have eight batches, or all as many as have room for their ends."""
    assert held(77, 3, [4], 8, 400000, 100000, 1) == Held(16, 8)
    assert held(77, 3, [4], 8, 100000, 100000, 1) == Held(64, 8)
    assert held(77, 3, [4], 8, 9, 100000, 1) == Held(170, 8)


def test_rows_are_fewer_where_blocks_are() -> None:
    assert held(77, 3, [4], 8, 4000, 1000, 20) == Held(16, 8)
    assert held(77, 3, [4], 8, 4000, 1000, 40) == Held(8, 8)
    assert held(77, 3, [4], 8, 4000, 1000, 2000) == Held(1, 8)


def test_two_windows_lie_beside_the_sums() -> None:
    assert held(16, 16, [16], 32, 4000, 1000, 1) is not None
    assert held(16, 16, [16], 64, 4000, 1000, 1) is None


def test_rows_of_many_terms_are_shared() -> None:
    assert held(16, 16, [16], 32, 32000, 1000, 1) is not None
    assert held(16, 16, [16], 32, 32001, 1000, 1) is None
