"""Sum the columns of a plane of odd rows over several rows at a time.

    T1: bf16[i4097] = sum(T0: bf16[i16384, i4097], dims=[0])
        =>   T1: f32[i16384, i4097] = cast(T0);  T2: f32[i2048, i32776] = reshape(T1)
             T3: f32[i32776] = sum(T2, dims=[0]);  T4: f32[i8, i4097] = reshape(T3)
             T5: f32[i4097] = sum(T4, dims=[0]);  T6: bf16[i4097] = cast(T5)

Eight rows of 4097 elements are a whole number of vectors of 8: what the column template loads and
stores of the plane is then aligned. Only where every input of the plane's size lies dense, in rows
that no vector fits, where their number is a multiple of so many, where the plane is large enough
for a second launch, and where nothing walks it in another way: a reduction along its rows has the
plane in the row template (`split_reductions.py`), unless no blocks hold a row.

Short rows of another number that are stored too, as of the gradient of a bias, are dealt to blocks
in stretches that pass through shared memory (`split_reductions.py`): the row template walks them
without a reduction along them.

Squared deviations are packed as sums are (`parts.py`): both are of one pass. Rows that are left
over are read again behind their packs, so none are left where a plane is stored beside the sums:
then rows are added to the last pack, which no thread loads (`schedule/columns.py`), if all else
that is read has an element a column.

    T2: f32[i1336, i50257] = pad(T1)                of 1335 rows
    T3: f32[i167, i402056] = reshape(T2);  T4: f32[i402056] = sum(T3, dims=[0])

Others have packs of fewer rows, for accesses of 8 bytes, if that leaves none.

Where something larger depends on the sums, what follows from them is stored first
(`store_first.py`).

So are sums over planes of odd rows, which are one dim then, several of them at a time if they end
inside a vector themselves.

Sums, products and extrema are associative, so the result differs by the order of rounding only, and
that order is fixed. The parts are summed in the accumulator's type.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd, prod

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, WIDE_ENOUGH, Layout, dense_strides
from thunder_fuser.analysis.reductions import (
    PACKED,
    column_shape,
    is_down,
    is_long,
    plane_of,
    runs_of,
)
from thunder_fuser.analysis.short_rows import share_of
from thunder_fuser.analysis.walked_rows import blocks_of_row, walked_row
from thunder_fuser.ir.build import produce
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.parts import Parts, has_parts
from thunder_fuser.presegment.split_reductions import Deal, in_stretches, in_two
from thunder_fuser.presegment.stages import padded, part, reduced, reshaped, widened
from thunder_fuser.presegment.store_first import store_first
from thunder_fuser.target import Target

MIN_BYTES = 96 * 1024  # read of a plane, per multiprocessor, that are worth a second launch: three
# tenths of the time are saved, 2 us at 13 MB of an H200
MIN_TERMS = 128  # of a column that are left


def pack_rows(
    fusion: Fusion,
    layouts: Mapping[TensorView, Layout],
    target: Target,
) -> Fusion:
    """`fusion`, whose inputs lie as `layouts`, with such sums in two stages. Inputs stay
    the same tensors."""
    way_of = partial(
        _way,
        layouts=layouts,
        outputs=[tv for tv in fusion.outputs if isinstance(tv, TensorView)],
        target=target,
    )
    walked: dict[tuple[int, int], list[TensorView]] = {}
    for tv in fusion.tensors:
        if is_long(tv) and (plane := plane_of(tv)) is not None:
            walked.setdefault(plane, []).append(tv)
    alone = (_without_rows(plane, fusion, sums, target) for plane, sums in walked.items())
    found = {tv: way for sums in alone if (way := way_of(sums)) is not None for tv in sums}
    planes = _Planes({}, Parts({}, {}))

    def reduce(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        match found.get(tv):
            case Deal() as deal:
                return in_two(tv, inputs[0], deal)
            case Filled(rows):
                return planes.filled(tv, inputs[0], rows)
            case int(rows):
                return planes.packed(tv, inputs[0], rows)
        return None

    return store_first(fusion, reduce)


def _without_rows(
    plane: tuple[int, int], fusion: Fusion, sums: Sequence[TensorView], target: Target
) -> Sequence[TensorView]:
    """The sums down columns, where reductions along rows are no part of their kernel."""
    down = [tv for tv in sums if _is_down(tv)]
    row = walked_row(plane, fusion, len(down))
    is_apart = any(not tv.expr.op.is_finished for tv in down)
    return down if is_apart or blocks_of_row(row, target.max_cluster) is None else sums


def _way(
    sums: Sequence[TensorView],
    layouts: Mapping[TensorView, Layout],
    outputs: Sequence[TensorView],
    target: Target,
) -> int | Filled | Deal | None:
    """How many rows of the plane that `sums` walk are a whole number of vectors, or of halves where
    that leaves none over; or how they are dealt out, if as many elements of the `outputs` are
    stored beside them, in stretches where an engine copies them, or in packs that
    rows are added to. None to leave it: what one kernel walks is packed together or not at all."""
    if not sums or not all(map(_is_column_sum, sums)):
        return None
    rows, columns = plane_of(sums[0]) or (0, 0)
    plane = list(plane_below(sums, rows * columns))
    itemsizes = [tv.dtype.itemsize for tv in plane if tv.definition is None]
    if not itemsizes or not all(lies_dense(tv, rows * columns, layouts) for tv in plane):
        return None
    lanes, half = (width // min(itemsizes) for width in (MAX_ALIGNMENT, WIDE_ENOUGH))
    packed, narrow = lanes // gcd(columns, lanes), half // gcd(columns, half)
    is_large = rows * columns * sum(itemsizes) >= MIN_BYTES * target.multiprocessors
    innermost = gcd(*(next(size for size in reversed(tv.shape) if size != 1) for tv in sums))
    if not is_large or gcd(innermost, lanes) * min(itemsizes) >= WIDE_ENOUGH:
        return None
    if rows % packed == 0 and rows // packed >= MIN_TERMS:
        return packed
    is_in_one_dim = all(tv.shape == (columns,) for tv in sums)
    has_rest = any(tv.expr.op.neutral is None for tv in sums)
    if _stores_beside(sums, outputs):  # pieces would be stored, and read for it, anew
        is_dealt = target.copies_stretches and is_in_one_dim and not has_rest
        share = share_of(columns, min(itemsizes)) if is_dealt else None
        dealt = in_stretches(rows, share, target)
        if dealt is not None:
            return dealt
        is_filled = is_in_one_dim and not has_rest and _reads_columns(plane, rows, columns)
        if is_filled and rows // packed >= MIN_TERMS:
            return Filled(packed)
    elif rows // packed >= MIN_TERMS and not any(map(_needs_others, sums)):
        return packed
    return narrow if rows % narrow == 0 and rows // narrow >= MIN_TERMS else None


def _stores_beside(sums: Sequence[TensorView], outputs: Sequence[TensorView]) -> bool:
    """True where a plane as large as that of the sums is an output, and does not wait for them."""
    elements = prod(plane_of(sums[0]) or ())
    planes = (tv for tv in outputs if prod(tv.shape) == elements)
    return any(set(sums).isdisjoint(topological([tv])) for tv in planes)


def _reads_columns(plane: Sequence[TensorView], rows: int, columns: int) -> bool:
    """True where all that is repeated in a plane has an element a column, or one for all."""
    of_plane = {tv for tv in plane if prod(tv.shape) == rows * columns}
    read = {t for tv in of_plane for t in tv.producers}
    shapes = {tv.shape for tv in read - of_plane if prod(tv.shape) != 1}
    return of_plane == {*plane} and shapes <= {(columns,), (1, columns)}


def _needs_others(tv: TensorView) -> bool:
    """True for a reduction whose terms others lead to: pieces of a plane would need these anew."""
    return any(is_long(other) for other in topological([tv]) if other is not tv)


def _is_column_sum(tv: TensorView) -> bool:
    """True for a reduction over leading dims, in parts."""
    return _is_down(tv) and len(runs_of(tv)) <= 2


def _is_down(tv: TensorView) -> bool:
    """True for a reduction down columns that what its parts come to leads to."""
    return is_down(tv) and has_parts(tv)


def plane_below(sums: Sequence[TensorView], elements: int) -> Iterator[TensorView]:
    """What the terms are computed from, as far as it is of the plane's size or larger."""
    left = [t for tv in sums for t in tv.producers]
    seen = set[TensorView]()
    while left:
        found = left.pop()
        if found not in seen and prod(found.shape) >= elements:
            seen.add(found)
            yield found
            left += found.producers


def lies_dense(tv: TensorView, elements: int, layouts: Mapping[TensorView, Layout]) -> bool:
    """True for an aligned input in row-major order, and for what is computed or repeated element by
    element."""
    if tv.definition is None:
        layout = layouts[tv]
        is_aligned = layout.alignment == MAX_ALIGNMENT
        return is_aligned and layout.strides == dense_strides(tv.shape)
    if tv.family is Family.VIEW:
        is_repeated = all(prod(t.shape) < elements for t in tv.producers)
        return is_repeated or tv.is_of("reshape")
    return tv.family in (Family.POINTWISE, Family.FULL, Family.RANDOM)


@dataclass(frozen=True)
class Filled:
    """Packs of so many `rows`, to the last of which some are added."""

    rows: int


@dataclass(frozen=True)
class _Planes:
    """Planes in packs of rows, each with the rows that are left over, and what those come to."""

    found: dict[TensorView, tuple[TensorView, TensorView | None]]
    parts: Parts

    def packed(self, tv: TensorView, operand: Value, rows: int) -> TensorView:
        """`tv` of so many rows at a time; those that are left over are summed behind their
        parts."""
        terms, columns = column_shape(tv) or (0, 0)
        source = widened(tv, operand)
        if source not in self.found:
            self.found[source] = _in_packs(source, terms, columns, rows)
        whole, left = self.found[source]
        if rows == 1:
            return reduced(tv, self.parts.of(tv.expr.op, whole, terms, tv.shape))
        left = None if left is None else reshaped(left, [terms % rows, *tv.shape])
        return self.parts.whole(tv, whole, terms // rows, [rows, *tv.shape], 0, left)

    def filled(self, tv: TensorView, operand: Value, rows: int) -> TensorView:
        """`tv` of so many rows at a time, where the last pack has fewer."""
        terms, columns = column_shape(tv) or (0, 0)
        source = widened(tv, operand)
        if source not in self.found:
            plane = reshaped(source, [terms, columns])
            packs = reshaped(
                padded(tv, plane, -terms % rows), [ceil_div(terms, rows), rows * columns]
            )
            self.found[source] = packs, None
        packs, _ = self.found[source]
        made = produce(tv.expr.op, [packs], {"dims": (0,), PACKED: terms * columns})
        return reduced(tv, reshaped(made, [rows, *tv.shape]), (0,))


def _in_packs(
    source: TensorView, terms: int, columns: int, rows: int
) -> tuple[TensorView, TensorView | None]:
    """What packs of so many rows have of a plane, and what is left over."""
    whole = terms // rows * rows
    if whole == terms:
        return source, None
    plane = reshaped(source, [terms, columns])
    return part(plane, 0, 0, whole), part(plane, 0, whole, terms)
