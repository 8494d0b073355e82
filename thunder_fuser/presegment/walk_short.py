"""Mark short reductions of planes that a kernel has to walk anyway.

    T1: f32[i16, i512, i512] = max(T0: f32[i16, i21, i512, i512], dims=[1]);  ... T9 = softmax(T0)
        =>   T1 = max(T0, dims=[1], walked=5376)

One thread combines a few terms in registers. But to compute one element of a softmax over 21
channels it combines all of them, 21 times what is needed, and the sums of a norm's gradient are
added by threads that do so for each of their terms; so are those of each channel's shares. The sum
of a gradient over 16 samples, beside the gradient, would be of threads that read all of it again.
Marked, such reductions are those of any plane: a block keeps its rows or columns
(`schedule/rows.py`, `schedule/kept_columns.py`), or walks them (`schedule/columns.py`). A gather at
a place that one of them makes waits for it, as for any.
"""

from __future__ import annotations

from math import prod

from thunder_fuser.analysis.reductions import (
    MAX_REPEATED,
    MAX_SHORT_REDUCTION,
    WALKED,
    is_long,
    is_long_reduction,
    is_reduction,
    runs_of,
    terms_and_results,
    terms_of,
)
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.stages import marked
from thunder_fuser.presegment.stop_gathers import stop_gathers


def walk_short(fusion: Fusion) -> Fusion:
    """`fusion` with such reductions marked."""
    planes = {short_plane(tv) for tv in fusion.tensors} - {None}
    whole = {
        plane: set(topological([tv for tv in fusion.roots if prod(tv.shape) == prod(plane)]))
        for plane in planes
        if plane is not None
    }
    beside = {
        tv: set(topological([terms_of(tv)]))
        for tv in fusion.tensors
        if is_long_reduction(tv) and any(prod(terms_of(tv).shape) == prod(p) for p in whole)
    }

    def is_summed_beside(tv: TensorView) -> bool:
        """True where long sums over the other axes of the plane, or over these too, have terms
        that need it."""
        shape, dims = terms_of(tv).shape, set(tv.expr.dims())

        def crosses(others: set[int]) -> bool:
            return dims.isdisjoint(others) or dims < others

        return any(
            terms_of(other).shape == shape and crosses(set(other.expr.dims())) and tv in needed
            for other, needed in beside.items()
        )

    def is_read_again(tv: TensorView, needed: set[TensorView]) -> bool:
        """True where what is stored of the plane needs a plane in memory that the terms need."""
        made_of = topological([terms_of(tv)])
        size = prod(terms_of(tv).shape)
        return any(t in needed and t in fusion.inputs and prod(t.shape) == size for t in made_of)

    def is_marked(tv: TensorView, plane: tuple[int, int]) -> bool:
        needed = whole[plane]
        return tv in needed or is_summed_beside(tv) or is_read_again(tv, needed)

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        plane = short_plane(tv)
        if plane is None or not is_marked(tv, plane):
            return None
        return marked(tv, inputs, **{WALKED: plane[0]})

    return stop_gathers(rewrite(fusion, rule))


def short_plane(tv: TensorView) -> tuple[int, int] | None:
    """(rows, columns) in memory of what a short reduction combines, if it has terms enough to be
    walked and they are one stretch of axes; else None."""
    if not is_reduction(tv) or 0 in tv.shape:
        return None
    terms, _ = terms_and_results(tv)
    is_short = MAX_REPEATED < terms <= MAX_SHORT_REDUCTION and not is_long(tv)
    if not is_short or tv.dtype.is_complex:
        return None
    *outer, inner = runs_of(tv)
    is_one_stretch = sum(run.is_reduced for run in (*outer, inner)) == 1
    return (prod(run.size for run in outer), inner.size) if is_one_stretch else None
