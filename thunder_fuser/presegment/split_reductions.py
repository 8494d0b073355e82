"""Split a reduction that leaves too few results to fill the machine into two.

    T1: f32[i8192] = sum(T0: bf16[i16384, i8192], dims=[0])
        =>   T1: f32[i16384, i8192] = cast(T0);  T2: f32[i64, i256, i8192] = reshape(T1)
             T3: f32[i64, i8192] = sum(T2, dims=[1]);  T4: f32[i8192] = sum(T3, dims=[0])

Sums, products and extrema are associative, so the result differs by the order of rounding only, and
that order is fixed. The parts are summed in the accumulator's type. Column sums beside a reduction
along the rows of the same plane get one part per block of rows, which the row template sums while
it walks them. A long row that is stored whole, computed from its reductions, stays in one piece
where a cluster of blocks can hold it: that is one launch, which reads it once. Sums over scattered
axes with few results, as of a batch norm with few channels, take the innermost of these axes first.
"""

from __future__ import annotations

from math import prod

from thunder_fuser.analysis.reductions import (
    MAX_SHORT_REDUCTION,
    column_shape,
    is_long,
    is_scan,
    is_scattered,
    plane_of,
    row_shape,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import TensorView, Value

PIECE = 16384  # elements of a long row that one block reduces
PARTS = 64  # parts of a column sum on its own: enough blocks, little traffic
CLUSTERED_BYTES = 128 * 1024  # of a row that is walked again, in each block of a cluster
MIN_TERMS = 256  # of a column, below which one pass is as good


def split_reductions(fusion: Fusion, multiprocessors: int, max_cluster: int = 1) -> Fusion:
    """`fusion` with its large reductions in two stages. Inputs stay the same tensors. Up to
    `max_cluster` blocks can share a row."""
    planes = {plane_of(tv) for tv in fusion.tensors if is_long(tv) and row_shape(tv)}
    limit = max_cluster * CLUSTERED_BYTES if max_cluster > 1 else 0
    whole = {plane for plane in _stored_planes(fusion) if _row_bytes(fusion, plane) <= limit}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        is_split = is_long(tv) and not is_scan(tv) and row_shape(tv) not in whole
        if is_scattered(tv) and _is_few_and_long(tv, multiprocessors):
            return _innermost_first(tv, inputs[0], multiprocessors)
        parts = _parts(tv, multiprocessors, plane_of(tv) in planes) if is_split else None
        return None if parts is None else _in_two(tv, inputs[0], parts)

    return rewrite(fusion, rule)


def _stored_planes(fusion: Fusion) -> set[tuple[int, int]]:
    """The planes, of reductions along rows, of which something that follows from them is stored."""
    below: dict[TensorView, frozenset[tuple[int, int]]] = {}
    for tv in fusion.tensors:
        found = frozenset[tuple[int, int]]()
        if tv.definition is not None:
            found = found.union(*(below[source] for source in tv.definition.tensors))
        along = row_shape(tv) if is_long(tv) else None
        below[tv] = found if along is None else found | {along}
    return {plane for tv in fusion.roots for plane in below[tv] if prod(tv.shape) == prod(plane)}


def _row_bytes(fusion: Fusion, plane: tuple[int, int]) -> int:
    """Of a row of each input that has the plane's size."""
    _, columns = plane
    read = [tv for tv in fusion.inputs if isinstance(tv, TensorView)]
    return sum(columns * tv.dtype.itemsize for tv in read if prod(tv.shape) == prod(plane))


def _parts(tv: TensorView, multiprocessors: int, beside_rows: bool) -> int | None:
    """How many parts a reduction is split into; None to leave it."""
    reduced = [a.is_reduction for a in tv.domain.logical]
    along = row_shape(tv)
    if along is not None:
        columns = along[1]
        is_trailing = reduced == sorted(reduced)
        if not is_trailing or not _is_few_and_long(tv, multiprocessors):
            return None
        return _divisor(columns, columns // PIECE)
    down = column_shape(tv)
    is_leading = reduced == sorted(reduced, reverse=True)
    if down is None or not is_leading or down[0] < MIN_TERMS:
        return None
    limit = 2 * multiprocessors if beside_rows else PARTS
    return _divisor(down[0], min(limit, down[0] // (2 * MAX_SHORT_REDUCTION)))


def _is_few_and_long(tv: TensorView, multiprocessors: int) -> bool:
    """True for rows that are too few to fill the machine and long enough to be shared."""
    rows, columns = row_shape(tv) or (0, 0)
    return rows < multiprocessors and columns >= 2 * PIECE


def _divisor(size: int, limit: int) -> int | None:
    """The largest divisor of `size` from a quarter of `limit` to all of it, else None."""
    least = max(limit // 4, 2)
    return next((d for d in range(limit, least - 1, -1) if size % d == 0), None)


def _in_two(tv: TensorView, source: Value, parts: int) -> TensorView:
    source = _widened(tv, source)
    sizes = [a.size for a in tv.domain.logical]
    kept = [a.size for a in tv.domain.logical if not a.is_reduction]
    terms = prod(sizes) // max(prod(kept), 1)
    if row_shape(tv) is not None:
        shape, first, second = [*kept, parts, terms // parts], len(kept) + 1, len(kept)
    else:
        shape, first, second = [parts, terms // parts, *kept], 1, 0
    pieces = call("reshape", source, new_shape=_constants(shape))
    return _reduced(tv, pieces, (first,), (second,))


def _innermost_first(tv: TensorView, source: Value, multiprocessors: int) -> TensorView:
    """sum(T0: [i8, i64, i784], dims=[0, 2]) => sum(sum(T0, dims=[2]), dims=[0])"""
    assert tv.definition is not None
    axes, source = tv.domain.logical, _widened(tv, source)
    last_kept = max(k for k, a in enumerate(axes) if not a.is_reduction and a.size != 1)
    dims = [k for k, a in enumerate(axes) if a.is_reduction]
    partial = apply(tv.definition.op, [source], {"dims": tuple(k for k in dims if k > last_kept)})
    assert isinstance(partial, TensorView)
    parts = _parts(partial, multiprocessors, False) if is_long(partial) else None
    if parts is not None:
        partial = _in_two(partial, source, parts)
    return _reduced(tv, partial, tuple(k for k in dims if k < last_kept))


def _widened(tv: TensorView, source: Value) -> TensorView:
    """`source` in the type in which the parts of `tv` are summed."""
    assert isinstance(source, TensorView)
    wide = _accumulator(tv.dtype)
    if wide is source.dtype or source.dtype.compute_type.is_integral:
        return source
    return call("cast", source, dtype=wide)


def _reduced(tv: TensorView, source: TensorView, *stages: tuple[int, ...]) -> TensorView:
    """`tv` as reductions of `source` over the dims of one stage after the other."""
    assert tv.definition is not None
    for dims in stages:
        made = apply(tv.definition.op, [source], {"dims": dims})
        assert isinstance(made, TensorView)
        source = made
    return source if source.dtype is tv.dtype else call("cast", source, dtype=tv.dtype)


def _accumulator(dtype: DataType) -> DataType:
    """The type of the partial results."""
    return dtype.compute_type


def _constants(sizes: list[int]) -> tuple[Constant, ...]:
    return tuple(sc.constant(size) for size in sizes)
