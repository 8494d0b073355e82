"""How many terms of short rows a block has room for."""

from __future__ import annotations

from thunder_fuser.schedule.held_terms import held_rows, room_for


def test_there_is_room_for_more_terms_than_rows_have_on_average() -> None:
    assert room_for(128, 4000, 1000) == 512 + 6 * 22 + 8


def test_there_is_room_for_a_term_of_each_row() -> None:
    assert room_for(128, 0, 1000) == 128


def test_rows_of_more_bytes_are_fewer() -> None:
    assert held_rows(32, 4, 40, 4000, 1000) == (4, room_for(128, 4000, 1000))
    assert held_rows(32, 4, 64, 4000, 1000) == (2, room_for(64, 4000, 1000))
    assert held_rows(32, 4, 256, 4000, 1000) is None


def test_a_part_has_no_more_rows_than_are_asked_for() -> None:
    assert held_rows(32, 1, 8, 4000, 1000) == (1, room_for(32, 4000, 1000))


def test_rows_of_few_terms_are_more() -> None:
    """Until the terms of a part's rows are a batch."""
    assert held_rows(7, 4, 132, 1000, 1000) == (8, room_for(56, 1000, 1000))
    assert held_rows(7, 4, 132, 2000, 1000) == (4, room_for(28, 2000, 1000))
