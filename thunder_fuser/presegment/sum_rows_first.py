"""Sum a plane by its rows where its terms need what the rows were reduced to.

    T1: f32[i16384, r8192] = sum(exp(T0), dims=[1]);  T2 = sub(T0, T1)
    T3: f32[r16384, r8192] = sum(T2, dims=[0, 1])
        =>   T4: f32[i16384, r8192] = sum(T2, dims=[1]);  T3: f32[r16384] = sum(T4, dims=[0])

A divergence of two distributions is such a sum, of log-probabilities. Over all elements at once it
is a kernel of its own, that reads the plane again; by rows it is one more phase of the kernel that
has the row in registers, and what is left to sum is a number per row.
"""

from __future__ import annotations

from math import prod

from thunder_fuser.analysis.reductions import MIN_SHARED, is_long, row_shape
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.stages import reduced, widened


def sum_rows_first(fusion: Fusion, multiprocessors: int) -> Fusion:
    """`fusion` with such sums in two stages, of planes with a row for each multiprocessor, or of
    rows that blocks share: parts of fewer rows would leave some idle."""

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        found = _rows_ahead(tv) if _is_total(tv) else None
        if found is None or (found[0] < multiprocessors and found[1] < MIN_SHARED):
            return None
        source = widened(tv, inputs[0])
        outer = _outer_dims(source.shape, found)
        if outer is None:
            return None
        inner = tuple(range(outer, source.ndim))
        return reduced(tv, source, inner, tuple(range(outer)))

    return rewrite(fusion, rule)


def _is_total(tv: TensorView) -> bool:
    """True for a long sum of all elements."""
    return tv.is_of("sum") and is_long(tv) and tv.ndim == 0


def _rows_ahead(tv: TensorView) -> tuple[int, int] | None:
    """(rows, columns) of a reduction along rows of as many elements that the terms of `tv` need."""
    terms = prod(a.size for a in tv.domain.logical)
    for other in topological([tv]):
        shape = row_shape(other) if other is not tv and is_long(other) else None
        if shape is not None and shape[0] > 1 and prod(shape) == terms:
            return shape
    return None


def _outer_dims(shape: tuple[int, ...], plane: tuple[int, int]) -> int | None:
    """How many outer dims are the rows of that plane."""
    fits = (k for k in range(1, len(shape)) if prod(shape[:k]) == plane[0])
    return next((k for k in fits if prod(shape[k:]) == plane[1]), None)
