"""Pieces of rows that a warp of the column template has in its lanes, reduced beside the columns.

    T1[c] = max(T0[r, c]);  T2[c] = exponentials(T0[r, c])
    T3[r, p] = max(T0[r, 256 * p + k]);  T4[r, p] = exponentials(T0[r, 256 * p + k])

What a warp loads of a batch of rows, a vector a lane, is raised once for both ways, below the
largest element of it (`both_ways` in `codegen/device/reduce.cuh`). Where its maxima are too far
from each other for that, once for each way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod

from thunder_fuser.analysis.access import Element, Index, demand
from thunder_fuser.analysis.digits import atom, divmod_form
from thunder_fuser.analysis.index_map import term_at
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.analysis.reductions import row_of_pieces, terms_of
from thunder_fuser.ir.domain import axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.column_axes import ApartColumns, ColumnAxes
from thunder_fuser.schedule.needs import needs_of, reductions_read
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.vector_axes import lane_of
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.target import WARP

NAMES = "max", "exponentials"  # the reductions of pieces, and those of columns
BATCH = 8  # rows that a warp has at a time, a power of two
REGISTERS = 128  # of a thread: two blocks of a multiprocessor


@dataclass(frozen=True)
class RowPieces:
    """The largest elements of pieces, and the sums of exponentials below them, at the piece of a
    warp in the row worked on; and the stores of both."""

    results: tuple[Element, Element]
    stores: tuple[tuple[Store, Index], ...]


def is_piece(tv: TensorView) -> bool:
    """True for a reduction of pieces of rows."""
    return row_of_pieces(tv) is not None


def axes_of_pieces(segment: Segment, rows: int, columns: int) -> ColumnAxes | None:
    """The axes of a plane of whose rows warps have pieces, a vector a lane where that is one of
    each row in memory; None for others. Raises Rejected."""
    pieces = [tv for tv in segment.long if is_piece(tv)]
    if not pieces:
        return None
    term = terms_of(pieces[0])
    lanes, rest = divmod(term.shape[-1], WARP)
    if prod(term.shape) != rows * columns or rest:
        raise Rejected("pieces of rows that no warp has")
    given = (axis(prod(term.shape[1:-1]) * WARP), lane_of(lanes), axis(rows))
    straight = ColumnAxes(*given)
    element = term, (atom(straight.row), *divmod_form(straight.column, lanes * WARP))
    for tv, index in needs_of(segment, pieces, [element]).leaves:
        if tv in segment.leaves and prod(tv.shape) > columns * BATCH:
            begin = straight.begin(offset_of(segment.layouts[tv], index))
            apart = gcd(*(weight for weight, _ in begin.terms), begin.constant)
            itemsize = tv.dtype.itemsize
            if gcd(apart * itemsize, segment.layouts[tv].alignment) < lanes * itemsize:
                return ApartColumns(*given)
    return straight


def row_pieces(
    segment: Segment, axes: ColumnAxes, terms: Sequence[Element], down: Sequence[TensorView]
) -> RowPieces | None:
    """Those of a segment, beside reductions `down` its columns, which combine `terms`; None where
    it has none. Raises Rejected."""
    pieces = sorted(filter(is_piece, segment.long), key=_name, reverse=True)
    if not pieces:
        return None
    if _names(pieces) != NAMES or {*_names(down)} != {*NAMES} or len(down) != len(NAMES):
        raise Rejected("pieces of rows beside other reductions")
    size = axes.lanes * WARP
    if len({*terms}) != 1:
        raise Rejected("pieces of rows beside other terms")
    piece, place = divmod_form(axes.column, size)
    index = (atom(axes.row), piece)
    for tv in pieces:
        if terms_of(tv).shape != terms_of(pieces[0]).shape:
            raise Rejected("pieces of rows beside those of others")
        read = demand([term_at(tv, index, (place,))], {terms[0][0]}).leaves
        if set(read) != {*terms}:
            raise Rejected("pieces of rows of other terms than columns")
    top, total = ((tv, index) for tv in pieces)
    return RowPieces((top, total), tuple((s, index) for s in segment.written if s.value in pieces))


def _names(reductions: Sequence[TensorView]) -> tuple[str, ...]:
    return tuple(map(_name, reductions))


def _name(tv: TensorView) -> str:
    return tv.expr.op.name


def check_pieces(segment: Segment, pieces: RowPieces | None, results: Sequence[Element]) -> None:
    """What pieces come to is stored, and read by no `results` of the same launch. Raises
    Rejected."""
    if pieces is None:
        return
    own = dict(pieces.results)
    if reductions_read(results, needs_of(segment, own, results), own):
        raise Rejected("what a piece of a row comes to is read in the same launch")
    if any(store.is_in_place for store, _ in pieces.stores):
        raise Rejected("what pieces of rows come to is written in place")
