"""Sum a plane by its rows where its terms need what the rows were reduced to.

    T1: f32[i16384, r8192] = sum(exp(T0), dims=[1]);  T2 = sub(T0, T1)
    T3: f32[r16384, r8192] = sum(T2, dims=[0, 1])
        =>   T4: f32[i16384, r8192] = sum(T2, dims=[1]);  T3: f32[r16384] = sum(T4, dims=[0])

A divergence of two distributions is such a sum, of log-probabilities. Over all elements at once it
is a kernel of its own, that reads the plane again; by rows it is one more phase of the kernel that
has the row in registers, and what is left to sum is a number per row.

So is a sum of odd rows whose terms read what rows and columns have one of: over all elements at
once each would divide its place by the columns and load that alone. Where such a plane is stored
beside, as the gradient of CLIP's logits beside that of their scale, its columns are summed first:
threads have what their column has one of in registers, and rows one number each for a warp.
"""

from __future__ import annotations

from math import prod

from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.analysis.reductions import MIN_SHARED, is_long, row_shape, terms_of
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.cut_rows import piece_size
from thunder_fuser.presegment.stages import reduced, widened
from thunder_fuser.target import Target

MIN_COLUMNS = 1024  # of rows that are read in aligned vectors though weights are read beside them


def sum_rows_first(fusion: Fusion, target: Target) -> Fusion:
    """`fusion` with such sums in two stages, of planes with a row for each multiprocessor, or of
    rows that may be cut: parts of fewer rows would leave some idle."""

    stored = {prod(tv.shape) for tv in fusion.roots}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        ahead = _rows_ahead(tv) if _is_total(tv) else None
        found = ahead or (_rows_apart(tv) if _is_total(tv) else None)
        is_cut = ahead is not None and _may_be_cut(ahead, target)
        if found is None or (found[0] < target.multiprocessors and not is_cut):
            return None
        source = widened(tv, inputs[0])
        outer = _outer_dims(source.shape, found)
        if outer is None:
            return None
        rows, inner = tuple(range(outer)), tuple(range(outer, source.ndim))
        if ahead is None and prod(found) in stored:
            return reduced(tv, source, rows, tuple(range(len(inner))))
        return reduced(tv, source, inner, rows)

    return rewrite(fusion, rule)


def _is_total(tv: TensorView) -> bool:
    """True for a long sum of all elements."""
    return tv.is_of("sum") and is_long(tv) and tv.ndim == 0


def _may_be_cut(plane: tuple[int, int], target: Target) -> bool:
    """True for rows that blocks may have equal pieces of, each of which one keeps (`cut_rows.py`).
    Others are read as often for a sum of each as for one of all, which needs no launch more."""
    return plane[1] >= MIN_SHARED and piece_size(plane, target) is not None


def _rows_ahead(tv: TensorView) -> tuple[int, int] | None:
    """(rows, columns) of a reduction along rows of as many elements that the terms of `tv` need."""
    terms = prod(a.size for a in tv.domain.logical)
    for other in topological([tv]):
        shape = row_shape(other) if other is not tv and is_long(other) else None
        if shape is not None and shape[0] > 1 and prod(shape) == terms:
            return shape
    return None


def _rows_apart(tv: TensorView) -> tuple[int, int] | None:
    """(rows, columns) of a sum of long rows that align nothing, of whose elements many read the
    same; of others vectors lie in rows."""
    *_, columns = terms_of(tv).shape
    rows = prod(terms_of(tv).shape) // max(columns, 1)
    read = [source for source in topological([tv]) if source.definition is None]
    planes = [source for source in read if prod(source.shape) == rows * columns]
    is_odd = all(columns * source.dtype.itemsize % MAX_ALIGNMENT for source in planes)
    are_shared = any(prod(source.shape) in (rows, columns) for source in read)
    is_apart = bool(planes) and is_odd and are_shared and columns >= MIN_COLUMNS
    return (rows, columns) if is_apart else None


def _outer_dims(shape: tuple[int, ...], plane: tuple[int, int]) -> int | None:
    """How many outer dims are the rows of that plane."""
    fits = (k for k in range(1, len(shape)) if prod(shape[:k]) == plane[0])
    return next((k for k in fits if prod(shape[k:]) == plane[1]), None)
