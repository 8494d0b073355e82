"""Which rows of elements that have an index each a block can add up, by its shared memory: the
elements side by side, a counter of each column, and a list of those that many elements go to."""

from __future__ import annotations

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.dtypes import DataType

MAX_PLACED = 16384  # elements of a row: as many of the largest are added in 64 bits
MAX_COUNTED = 65535  # columns of a block, whose numbers have 16 bits
FEW = 4  # floats of a column, of more of which it is listed; whole numbers are always listed
COUNTER_BYTES, LISTED_BYTES = 4, 2
VECTOR = 16  # bytes: counters and lists are whole vectors
SLACK = 1024  # bytes of shared memory beside


def shared_bytes(rows: int, places: int, columns: int, dtype: DataType) -> int:
    """Of a block of rows of so many elements and columns: counters, the list, the elements."""
    counted, elements = rows * columns * COUNTER_BYTES, rows * places
    listed = elements // (FEW + 1 if dtype.is_floating else 1) * LISTED_BYTES
    vectors = ceil_div(counted, VECTOR) + ceil_div(listed, VECTOR)
    return vectors * VECTOR + elements * dtype.itemsize


def slot_bytes(rows: int, columns: int, dtype: DataType) -> int:
    """Of a block that has room for a few elements of each column beside its counter."""
    counted, slots = (rows * columns * n for n in (COUNTER_BYTES, FEW * dtype.itemsize))
    return (ceil_div(counted, VECTOR) + ceil_div(slots, VECTOR)) * VECTOR


def refusal(places: int, columns: int, dtype: DataType, room: int) -> str | None:
    """Why no block of so much shared memory adds up rows of these; None if one does."""
    if dtype is DataType.Double:
        return "sums of f64 at an index of each element, which are not exact in 64 bits"
    if places > MAX_PLACED:
        return f"rows of {places} elements with an index each, at most {MAX_PLACED}"
    if columns > MAX_COUNTED or shared_bytes(1, places, columns, dtype) + SLACK > room:
        return f"{places} elements with an index each and {columns} columns, more than a block has"
    return None if places and columns else "rows without elements or columns"
