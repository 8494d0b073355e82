"""How many rows a block holds until all of them have met."""

from __future__ import annotations

import pytest

from thunder_fuser.analysis.met_rows import MetRows, groups_of_block, met_rows_held, vector_of
from thunder_fuser.target import MAX_THREADS, REGISTERS


@pytest.mark.parametrize(
    ("columns", "itemsizes", "expected"),
    [
        (784, (2, 2), (4, 4)),
        (196, (2, 2), (4, 4)),
        (49, (2, 2), (1, 2)),
        (784, (2, 4), (4, 6)),
        (784, (4, 4), (2, 4)),
        (784, (8,), (1, 2)),
        (784, (16,), (1, 4)),
        (7, (), (1, 0)),
    ],
)
def test_a_vector_divides_the_row(
    columns: int, itemsizes: tuple[int, ...], expected: tuple[int, int]
) -> None:
    assert vector_of(columns, itemsizes) == expected


@pytest.mark.parametrize(
    ("count", "columns", "expected"),
    [
        (8, 784, MetRows(32)),  # 196 vectors, seven each
        (1, 8, MetRows(1)),
        (20, 1024, MetRows(16, 2)),  # one block would be alone on a multiprocessor
        (10, 4096, MetRows(32, 4)),  # 64 elements a thread, which would be alone
        (9, 16384, None),  # eight blocks would hold it
        (3, 65536, None),
        (64, 64, MetRows(2)),
        (40, 1024, MetRows(8, 4)),
        (64, 4096, None),
    ],
)
def test_a_block_has_all_rows_or_a_cluster_has(
    count: int, columns: int, expected: MetRows | None
) -> None:
    """Of two tensors of 16 bits."""
    lanes, registers = vector_of(columns, (2, 2))
    assert met_rows_held(count, columns // lanes, lanes, registers, 8) == expected


@pytest.mark.parametrize(
    ("count", "columns", "expected"),
    [(8, 784, 32), (20, 1024, 32), (8, 1517, 64), (10, 4096, None), (40, 1024, None)],
)
def test_without_clusters_a_block_may_be_alone(
    count: int, columns: int, expected: int | None
) -> None:
    lanes, registers = vector_of(columns, (2, 2))
    found = met_rows_held(count, columns // lanes, lanes, registers, 1)
    assert found == (None if expected is None else MetRows(expected))


@pytest.mark.parametrize("columns", [33, 49, 64, 196, 784, 1024, 4096, 16384])
@pytest.mark.parametrize("count", [1, 2, 3, 8, 16, 20, 40])
def test_threads_and_what_they_hold_fit_on_a_multiprocessor(count: int, columns: int) -> None:
    lanes, registers = vector_of(columns, (2, 4))
    vectors = columns // lanes
    found = met_rows_held(count, vectors, lanes, registers, 8)
    if found is not None:
        assert found.threads * count <= MAX_THREADS
        held = -(-vectors // (found.threads * found.cluster))
        assert held * registers * found.threads * count < REGISTERS


def test_a_block_has_several_groups_of_few_short_rows() -> None:
    assert [groups_of_block(8, threads, 128) for threads in (2, 16, 32)] == [8, 1, 1]


@pytest.mark.parametrize(("count", "threads", "expected"), [(5, 2, 16), (3, 4, 16), (63, 2, 1)])
def test_warps_are_whole_where_a_block_has_room(count: int, threads: int, expected: int) -> None:
    assert groups_of_block(count, threads, 128) == expected
