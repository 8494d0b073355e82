"""Take from a sum of elements of which an index tells the only one that is not 0 just that one.

    T2: bool[i64, i19, i4096] = eq(T0: i64[i64, b19, i4096], iota)
    T3: f32[i64, r19, i4096] = sum(where(T2, T1: f32[i64, b19, i4096], 0), dims=[1])
        =>   T4 = logical_and(ge(T0, 0), lt(T0, 19));  T3: f32[i64, i4096] = where(T4, T1, 0)

where the row, or column, has one index and one value: in the gradient of a cross entropy what the
exponentials are multiplied by. No threads bring sums of it together. Beside other sums of the same
rows a block has them whole; without any, a thread loads the index and the value for as many
elements as it owns: of 256 classes, eight of a thread, that took 67 us for 119, and of 19, which
nothing divides, 113 for 80, so these are summed. Not with `strict`: the trace makes 0 of -0.
"""

from __future__ import annotations

from thunder_fuser.analysis.reductions import is_reduction, terms_of
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef

OWNED = range(4, 9)  # elements that a thread has, so that it loads what they share once
SPREADING = ("broadcast", "broadcast_in_dim", "reshape", "cast")


def fold_picks(fusion: Fusion) -> Fusion:
    """`fusion` with such sums as selections."""
    reduced = [tv for tv in fusion.tensors if is_reduction(tv)]
    picks = {tv for tv in reduced if _picked(tv, tv.expr.inputs) is not None}
    beside = {_walked(tv) for tv in reduced if tv not in picks}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        is_whole = tv in picks and (_walked(tv) in beside or _is_owned(tv))
        return _picked(tv, inputs) if is_whole else None

    return rewrite(fusion, rule)


def _is_owned(tv: TensorView) -> bool:
    """True for rows or columns of which a thread of a map has several elements."""
    (dim,) = tv.expr.dims()
    return any(terms_of(tv).shape[dim] % owned == 0 for owned in OWNED)


def _walked(tv: TensorView) -> tuple[object, ...]:
    """What a reduction is of: a shape, and the dims of its rows."""
    return terms_of(tv).shape, tv.expr.dims()


def _picked(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    match inputs:
        case (
            TensorView(
                definition=Expr(
                    OpDef(name="where"),
                    (
                        TensorView(definition=Expr(OpDef(name="eq"), (first, second))),
                        TensorView() as value,
                        sc.Constant(0 | 0.0),
                    ),
                )
            ) as term,
        ) if tv.is_of("sum") and len(tv.expr.dims()) == 1 and value.shape == term.shape:
            (dim,) = tv.expr.dims()
            for index, counted in ((first, second), (second, first)):
                if _is_one(index, value, dim) and _counts(counted, dim, term.shape[dim]):
                    return _selected(tv, index, value, dim, term.shape[dim])
    return None


def _is_one(index: Value, value: TensorView, dim: int) -> bool:
    """True for what is the same all along `dim`."""
    both = (index, value)
    return all(isinstance(tv, TensorView) and tv.logical[dim].is_broadcast for tv in both)


def _counts(tv: Value, dim: int, size: int) -> bool:
    """True for the place along `dim`, of so many."""
    if not isinstance(tv, TensorView) or tv.shape[dim] != size:
        return False
    others = (a for d, a in enumerate(tv.logical) if d != dim)
    if tv.logical[dim].is_broadcast or not all(a.is_broadcast or a.size == 1 for a in others):
        return False
    while any(map(tv.is_of, SPREADING)):
        (tv,) = tv.producers
    is_plain = tv.is_of("iota") and tv.shape == (size,)
    return is_plain and tv.expr.inputs[:2] == (sc.constant(0), sc.constant(1))


def _selected(tv: TensorView, index: Value, value: TensorView, dim: int, size: int) -> TensorView:
    assert isinstance(index, TensorView)
    place, one = (call("squeeze", x, dims=(dim,), squeeze_expanded=True) for x in (index, value))
    is_there = call(
        "logical_and", call("ge", place, sc.constant(0)), call("lt", place, sc.constant(size))
    )
    return call("where", is_there, one, sc.constant(0.0))
