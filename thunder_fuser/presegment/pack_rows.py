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

Where something larger depends on the sums, they are stored first.

So are sums over planes of odd rows, which are one dim then, several of them at a time if they end
inside a vector themselves.

Sums, products and extrema are associative, so the result differs by the order of rounding only, and
that order is fixed. The parts are summed in the accumulator's type.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from functools import partial
from math import gcd, prod

from thunder_fuser.analysis.layout import MAX_ALIGNMENT, Layout, dense_strides
from thunder_fuser.analysis.reductions import (
    column_shape,
    is_long,
    is_scan,
    plane_of,
)
from thunder_fuser.analysis.walked_rows import blocks_of_row
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.split_reductions import (
    Deal,
    constants,
    in_stretches,
    in_two,
    is_summed,
    op_of,
    reduced,
    reshaped,
    spread,
    walked_row,
    widened,
)

WIDE_ENOUGH = 8  # bytes of an access, as in schedule/flatten.py
MIN_BYTES = 96 * 1024  # read of a plane, per multiprocessor, that are worth a second launch: three
# tenths of the time are saved, 2 us at 13 MB of an H200
MIN_TERMS = 128  # of a column that are left


def pack_rows(
    fusion: Fusion,
    layouts: Mapping[TensorView, Layout],
    multiprocessors: int,
    max_cluster: int = 1,
) -> Fusion:
    """`fusion`, whose inputs lie as `layouts`, with such sums in two stages. Up to `max_cluster`
    blocks can hold a row. Inputs stay the same tensors."""
    results = (tv for tv in fusion.outputs if isinstance(tv, TensorView))
    stored, walks = {prod(tv.shape) for tv in results}, max_cluster > 1
    way_of = partial(
        _way, layouts=layouts, stored=stored, walks=walks, multiprocessors=multiprocessors
    )
    walked: dict[tuple[int, int], list[TensorView]] = {}
    for tv in fusion.tensors:
        if is_long(tv) and (plane := plane_of(tv)) is not None:
            walked.setdefault(plane, []).append(tv)
    alone = (_without_rows(plane, fusion, sums, max_cluster) for plane, sums in walked.items())
    found = {tv: way for sums in alone if (way := way_of(sums)) is not None for tv in sums}
    apart = spread(fusion, found)

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        way = found.get(tv)
        if way is None:
            return None
        made = in_two(tv, inputs[0], way) if isinstance(way, Deal) else _packed(tv, inputs[0], way)
        return call("segment_set", made) if tv in apart else made

    return rewrite(fusion, rule)


def _without_rows(
    plane: tuple[int, int], fusion: Fusion, sums: Sequence[TensorView], max_cluster: int
) -> Sequence[TensorView]:
    """The sums down columns, where reductions along rows are no part of their kernel."""
    down = [tv for tv in sums if is_summed(tv)]
    row = walked_row(plane, fusion, len(down))
    return down if blocks_of_row(row, max_cluster) is None else sums


def _way(
    sums: Sequence[TensorView],
    layouts: Mapping[TensorView, Layout],
    stored: Container[int],
    walks: bool,
    multiprocessors: int,
) -> int | Deal | None:
    """How many rows of the plane that `sums` walk are a whole number of vectors; or how they are
    dealt out, if as many elements are `stored` in stretches too, which a machine may have that
    `walks` so. None to leave it: what one kernel walks is packed together or not at all."""
    if not sums or not all(map(_is_column_sum, sums)):
        return None
    rows, columns = plane_of(sums[0]) or (0, 0)
    plane = list(plane_below(sums, rows * columns))
    itemsizes = [tv.dtype.itemsize for tv in plane if tv.definition is None]
    if not itemsizes or not all(lies_dense(tv, rows * columns, layouts) for tv in plane):
        return None
    lanes = MAX_ALIGNMENT // min(itemsizes)
    packed = lanes // gcd(columns, lanes)
    is_large = rows * columns * sum(itemsizes) >= MIN_BYTES * multiprocessors
    innermost = gcd(*(next(size for size in reversed(tv.shape) if size != 1) for tv in sums))
    if not is_large or gcd(innermost, lanes) * min(itemsizes) >= WIDE_ENOUGH:
        return None
    if rows % packed == 0 and rows // packed >= MIN_TERMS:
        return packed
    is_in_one_dim = all(tv.shape == (columns,) for tv in sums)
    has_rest = any(op_of(tv).neutral is None for tv in sums)
    if rows * columns in stored:  # pieces would be stored, and read for it, anew
        is_dealt = walks and is_in_one_dim and not has_rest
        return in_stretches(rows, columns, min(itemsizes), multiprocessors) if is_dealt else None
    return packed if rows // packed >= MIN_TERMS and not any(map(_needs_others, sums)) else None


def _needs_others(tv: TensorView) -> bool:
    """True for a reduction whose terms others lead to: pieces of a plane would need these anew."""
    return any(is_long(other) for other in topological([tv]) if other is not tv)


def _is_column_sum(tv: TensorView) -> bool:
    """True for a reduction over leading dims whose parts combine as its terms do."""
    if is_scan(tv) or column_shape(tv) is None or tv.definition is None:
        return False
    is_reduced = [a.is_reduction for a in tv.domain.logical if a.size != 1]
    return tv.definition.op.is_finished and is_reduced == sorted(is_reduced, reverse=True)


def plane_below(sums: Sequence[TensorView], elements: int) -> Iterator[TensorView]:
    """What the terms are computed from, as far as it is of the plane's size or larger."""
    left = [t for tv in sums if tv.definition for t in tv.definition.tensors]
    seen = set[TensorView]()
    while left:
        found = left.pop()
        if found not in seen and prod(found.shape) >= elements:
            seen.add(found)
            yield found
            left += found.definition.tensors if found.definition else ()


def lies_dense(tv: TensorView, elements: int, layouts: Mapping[TensorView, Layout]) -> bool:
    """True for an aligned input in row-major order, and for what is computed or repeated element by
    element."""
    if tv.definition is None:
        layout = layouts[tv]
        is_aligned = layout.alignment == MAX_ALIGNMENT
        return is_aligned and layout.strides == dense_strides(tv.shape)
    row = tv.definition.op
    if row.family is Family.VIEW:
        is_repeated = all(prod(t.shape) < elements for t in tv.definition.tensors)
        return is_repeated or row.name == "reshape"
    return row.family in (Family.POINTWISE, Family.FULL, Family.RANDOM)


def _packed(tv: TensorView, source: Value, rows: int) -> TensorView:
    """`tv` of so many rows at a time; those that are left over are summed behind their parts."""
    assert tv.definition is not None
    terms, columns = column_shape(tv) or (0, 0)
    source, whole = widened(tv, source), terms // rows * rows
    if whole < terms:
        source = reshaped(source, [terms, columns])
    flat = reshaped(_rows_of(source, 0, whole), [terms // rows, rows * columns])
    parts = apply(tv.definition.op, [flat], {"dims": (0,)})
    assert isinstance(parts, TensorView)
    if rows == 1:
        return reduced(tv, reshaped(parts, tv.shape))
    if whole == terms:
        return reduced(tv, reshaped(parts, [rows, *tv.shape]), (0,))
    left = reshaped(_rows_of(source, whole, terms), [terms - whole, *tv.shape])
    every = call("cat", reshaped(parts, [rows, *tv.shape]), left, dim=0)
    return reduced(tv, every, (0,))


def _rows_of(source: TensorView, start: int, end: int) -> TensorView:
    """`source[start:end]`."""
    if (start, end) == (0, source.shape[0]):
        return source
    starts, ends = [0] * source.ndim, list(source.shape)
    starts[0], ends[0] = start, end
    sizes = {"start_indices": constants(starts), "end_indices": constants(ends)}
    return call("slice", source, **sizes, strides=constants([1] * source.ndim))
