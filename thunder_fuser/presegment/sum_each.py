"""Sum each of a few rows alone where they are made of the same.

    T2: f32[r8, i4, r1024] = sum(mul(T0: f32[i8, i4, i1024], T1: f32[i8, b4, i1024]), dims=[0, 2])
        =>   T3 = T0[:, 0]; T4: f32[] = sum(mul(T3, T1));  ...  T2 = cat(T4, ...)

The gradients of weights that mix a few streams: sixteen sums of products of two planes, of four
streams each. As rows of one plane they would read it four times, and those of another tensor would
have a launch of their own. Alone, all are sums of as many terms, and blocks that share such a row
have its terms of every stream in registers. Rows of a plane that is reduced across them too, as the
channels of a norm are, stay together: a block that keeps all rows of a place has both.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod

from thunder_fuser.analysis.reductions import (
    MIN_SHARED,
    is_along,
    is_long,
    is_reduction,
    terms_and_results,
    terms_of,
)
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.stages import reshaped
from thunder_fuser.presegment.stretches import Stretch, Stretches
from thunder_fuser.presegment.walk_short import short_plane

MOST = 16  # such rows of one plane: a sum of each is a register of all threads


def sum_each(fusion: Fusion) -> Fusion:
    """`fusion` with such rows apart. What is reduced again waits for another launch, which has its
    terms side by side."""
    reduced = [tv for tv in fusion.tensors if is_reduction(tv)]
    again_reduced = set(topological([source for tv in reduced for source in tv.producers]))
    across = {(terms_of(tv).shape, tv.expr.dims()) for tv in reduced if short_plane(tv)}
    alone = (tv for tv in reduced if tv not in again_reduced and _are_of_the_same(tv))
    apart = {tv for tv in alone if not _are_crossed(tv, across)}
    parts = Stretches()

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        match inputs:
            case (TensorView() as terms,) if tv in apart:
                return _each(tv, terms, parts)
        return None

    return rewrite(fusion, rule) if apart else fusion


def _are_of_the_same(tv: TensorView) -> bool:
    """True for a few long rows of which several have an element of a tensor in common, if nothing
    long is reduced before them."""
    if not is_along(tv) or not tv.expr.op.is_finished:
        return False
    terms, rows = terms_and_results(tv)
    if not 1 < rows <= MOST or terms < MIN_SHARED:
        return False
    made_of = [*topological(tv.expr.tensors)]
    given = (prod(source.shape) for source in made_of if source.definition is None)
    return not any(map(is_long, made_of)) and any(terms <= size < terms * rows for size in given)


def _are_crossed(tv: TensorView, across: Iterable[tuple[Sequence[int], Sequence[int]]]) -> bool:
    """True for rows of what is reduced `across` them, in such shapes over such dims, too."""
    shape, dims = terms_of(tv).shape, set(tv.expr.dims())
    return any(shape == other and dims.isdisjoint(others) for other, others in across)


def _each(tv: TensorView, terms: TensorView, parts: Stretches) -> TensorView:
    """The rows of `terms`, one after another."""
    reduced = tv.expr.dims()
    kept = [dim for dim, size in enumerate(terms.shape) if size != 1 and dim not in reduced]
    sums = list[TensorView]()
    for places in product(*(range(terms.shape[dim]) for dim in kept)):
        row = terms
        for dim, place in zip(kept, places, strict=True):
            row = parts.of(row, Stretch(dim, place, place + 1))
        sums.append(reshaped(again(tv.expr, [row]), (1,)))
    return reshaped(call("cat", *sums, dim=0), tv.shape)
