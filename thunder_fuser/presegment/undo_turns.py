"""Reduce what was permuted as it lies in memory.

    T1 = permute(T0, dims=[1, 0]);  T2 = cast(T1);  T3 = sum(T2, dims=[1])
        =>   T1 = cast(T0);  T2 = permute(T1, dims=[1, 0]);  T3 = sum(T1, dims=[0])

A permutation moves behind what is computed element by element, and no reduction needs it. So those
of the rows and of the columns of one plane, as in a contrastive loss, are told from each other, and
each gets a kernel that reads whole lines. Only where rows become columns, or columns rows, and
either others of the plane are read as they lie, or no block keeps them: a kernel that does so
(`schedule/kept_columns.py`) takes both. It also takes a plane beside one that lies otherwise, as in
the gradient of a norm of turned images, which is left to it with what else is reduced of that.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Set
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.kept_rows import are_kept
from thunder_fuser.analysis.reductions import (
    is_long_reduction,
    is_reduction,
    terms_and_results,
    terms_of,
)
from thunder_fuser.ir.build import again, call, produce
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.stages import reshaped
from thunder_fuser.target import Target

Order = tuple[int, ...]  # the dim of what is permuted that each dim of the result is


def undo_turns(fusion: Fusion, target: Target) -> Fusion:
    """`fusion` without permutations before such reductions. Inputs stay the same tensors."""
    turns, mixed = _turns(fusion)
    if not turns:
        return fusion
    needs = {tv: frozenset(topological([tv])) for tv in fusion.tensors if is_long_reduction(tv)}
    turned = {tv: needed & turns.keys() for tv, needed in needs.items()}
    plain = set[TensorView]().union(*(needs[tv] for tv, found in turned.items() if not found))
    left = _connected(turned, {tv for tv in turned if terms_of(tv) in mixed})

    def is_undone(tv: TensorView) -> bool:
        if tv not in needs or tv in left or not _is_misread(tv, turns):
            return False
        planes = (t for t in needs[tv] if prod(t.shape) == _terms(tv))
        return not plain.isdisjoint(planes) or not are_kept(
            fusion, *terms_and_results(tv), target.max_cluster
        )

    found = list(filter(is_undone, fusion.tensors))
    return rewrite(fusion, _Undo(turns, frozenset(topological(found))).rule) if found else fusion


def _turns(fusion: Fusion) -> tuple[dict[TensorView, Order], set[TensorView]]:
    """The permutation that those tensors are of memory's order which are computed, element by
    element, of one and of what is repeated; and what is computed of planes in several orders."""
    found, mixed = dict[TensorView, Order](), set[TensorView]()
    for tv in fusion.tensors:
        match tv.definition:
            case Expr(op=row, inputs=(TensorView() as source,)) as made if row.name == "permute":
                before = found.get(source, tuple(range(source.ndim)))
                order = tuple(before[d] for d in made.dims())
                if order != tuple(range(tv.ndim)):
                    found[tv] = order
            case Expr(op=row) as made if row.family is Family.POINTWISE:
                whole = _whole(made, tv)
                orders = set(map(found.get, whole))
                if len(orders) > 1 or not mixed.isdisjoint(whole):
                    mixed.add(tv)
                elif (common := next(iter(orders), None)) is not None:
                    found[tv] = common
    return found, mixed


def _connected(
    turned: Mapping[TensorView, Set[TensorView]], start: Set[TensorView]
) -> Set[TensorView]:
    """The reductions that need what is `turned` for those of `start`, or for each other so."""
    found, new = set(start), set(start)
    while new:
        met = set[TensorView]().union(*(turned[tv] for tv in new))
        new = {tv for tv, needed in turned.items() if tv not in found and needed & met}
        found |= new
    return found


def _whole(made: Expr, tv: TensorView) -> list[TensorView]:
    """The operands that have an element for each of `tv`."""
    return [t for t in made.tensors if t.shape == tv.shape and not _is_repeated(t)]


def _is_repeated(tv: TensorView) -> bool:
    return any(a.is_broadcast and a.size != 1 for a in tv.logical)


def _terms(tv: TensorView) -> int:
    """Of all results of a reduction."""
    return prod(terms_of(tv).shape)


def _is_misread(tv: TensorView, turns: Mapping[TensorView, Order]) -> bool:
    """True for a reduction of a permutation, along rows that are columns in memory or down columns
    that are rows."""
    order = turns.get(terms_of(tv))
    if order is None:
        return False
    sizable = [d for d, size in enumerate(terms_of(tv).shape) if size != 1]
    innermost, dims = max(sizable, key=lambda d: order[d]), tv.expr.dims()
    return (innermost in dims) != (sizable[-1] in dims)


@dataclass(frozen=True)
class _Undo:
    """Moves permutations behind what leads to some reductions."""

    turns: Mapping[TensorView, Order]
    within: Container[TensorView]

    def rule(self, tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        made = tv.expr
        if tv not in self.within:
            return None
        if is_reduction(tv) and (order := self.turns.get(made.tensors[0])) is not None:
            return _reduced(made, inputs[0], order)
        order = self.turns.get(tv)
        if order is None or made.op.family is not Family.POINTWISE:
            return None
        operands = [_undone(v, order) if isinstance(v, TensorView) else v for v in inputs]
        moved = again(made, operands)
        return call("permute", moved, dims=order)


def _undone(tv: TensorView, order: Order) -> TensorView:
    """What `tv` is a permutation of in that order."""
    made = tv.definition
    if made is not None and made.op.name == "permute" and made.dims() == order:
        return made.tensors[0]
    if not tv.ndim:
        return tv
    tv = reshaped(tv, (*[1] * (len(order) - tv.ndim), *tv.shape))  # as it is broadcast
    return call("permute", tv, dims=tuple(order.index(d) for d in range(tv.ndim)))


def _reduced(made: Expr, source: Value, order: Order) -> TensorView:
    """The reduction `made` of what `source` is a permutation of."""
    assert isinstance(source, TensorView)
    dims = made.dims()
    attrs = {**dict(made.attrs), "dims": tuple(sorted(order[d] for d in dims))}
    found = produce(made.op, [_undone(source, order)], attrs)
    kept = [order[d] for d in range(source.ndim) if d not in dims]
    if kept == sorted(kept):
        return found
    return call("permute", found, dims=tuple(sorted(kept).index(d) for d in kept))
