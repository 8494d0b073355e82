"""What a column schedule says of its rows."""

from __future__ import annotations

from tests.kernel.test_divisors import quotients
from tests.programs import H200, piece, total
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.schedule import columns
from thunder_fuser.schedule.column_schedule import ColumnSchedule
from thunder_fuser.target import HOST


def test_what_differs_from_row_to_row_is_no_divisor() -> None:
    x, of_rows = floats(40, 64), floats(40, 1)
    found = columns.schedule(segment_of([x, of_rows], *quotients(x, of_rows)), HOST)
    assert isinstance(found, ColumnSchedule)
    assert not found.divisors


def test_the_text_has_threads_sums_and_stores() -> None:
    x = floats(40, 64)
    text = str(columns.schedule(segment_of([x], total(x, 0)), HOST)).splitlines()
    assert text[0] == "columns over row{40}, vector{16}, lane{4}"
    assert text[-1].startswith("  store T1[")


def test_as_many_rows_are_loaded_of_a_part_of_a_plane() -> None:
    """Packs of rows leave some of the last."""
    x = halves(16384, 8192)
    segments = segment_of([x], total(x, 0)), segment_of([x], total(piece(x, 0, 0, 16000), 0))
    assert [columns.schedule(s, H200).batch for s in segments] == [4, 4]
