"""Write the logarithm of a softmax without computing one of each element, and a softmax that is
computed of its logarithm by the exponentials of which there is a sum.

    T3 = div(exp(T0), T2)                     T5 = sub(T0, log(T2))
    T4 = log(T3)                       =>     T4 = where(eq(T3, 0), -inf, T5)

    T2 = sum(exp(T0));  T3 = exp(sub(T0, log(T2)))    =>    T3 = div(exp(T0), T2)

    T5 = where(eq(T3, 0), 0, mul(T3, T4))
        =>   T5 = mul(T3, sub(where(eq(exp(T0), 0), 0, T0), log(T2)))

    T6 = sub(mul(T3, T4), mul(T3, T5))                =>    T6 = mul(T3, sub(T4, T5))

with T0 = x - max(x) and T2 of each row, as of a divergence from what a softmax gives: only a
logarithm of each row is left, or an exponential of each element, so that what is summed of shares
need not wait for T2 (`sum_apart`). The gradient of a logarithm has both of them from memory, and
T0 = x - m with any m of each row. All are off by about a rounding of T0. Where the share vanishes,
the logarithm is that of 0, as in the trace; where nothing is added then, as in x log(x), the
distance is 0 instead, so that what is subtracted from it is the same in all of a row. Two products
of a share with such logarithms are subtracted before it multiplies them: in a divergence of
distributions that are alike each term is near 0, and not the difference of two sums.

    T3 = div(exp(T0), T2);  T4 = exp(sub(T0, log(T2)))    =>    T4 = T3

as in the gradients of a softmax and of its logarithm, which have T2 from memory: an exponential of
each element is left, and no logarithm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from thunder_fuser.analysis.precision import (
    behind_views,
    distance_from_max,
    exponent_summed,
    in_sight,
)
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value, is_zero
from thunder_fuser.ops import Family, OpDef


def fold_logs(fusion: Fusion) -> Fusion:
    """`fusion` with such logarithms as differences."""
    return _shared(rewrite(fusion, _rule))


def _shared(fusion: Fusion) -> Fusion:
    """`fusion` with one quotient for both."""
    quotients: dict[Value, list[TensorView]] = {}
    for tv in fusion.tensors:
        match tv.definition:
            case Expr(
                OpDef(name="div"), (TensorView(definition=Expr(OpDef(name="exp"), (below,))), _)
            ):
                quotients.setdefault(below, []).append(tv)
    alike = {tv: found for tv in fusion.tensors if (found := _quotient(tv, quotients)) is not None}
    shares: dict[TensorView, TensorView] = {}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if (found := alike.get(tv)) is not None and found not in shares:
            assert isinstance(inputs[0], TensorView)
            below, log = inputs[0].expr.inputs
            assert isinstance(log, TensorView)
            shares[found] = call("div", call("exp", below), _total(log))
        elif found is None and tv in alike.values():
            shares.setdefault(tv, again(tv.expr, inputs))
        return shares.get(tv if found is None else found)

    return rewrite(fusion, rule) if alike else fusion


def _quotient(tv: TensorView, quotients: Mapping[Value, Sequence[TensorView]]) -> TensorView | None:
    """That of `quotients` which is exp(T0 - log(T2)), where `tv` is that."""
    match tv.definition:
        case Expr(
            OpDef(name="exp"),
            (TensorView(definition=Expr(OpDef(name="sub"), (below, TensorView() as log))),),
        ):
            found = (q for q in quotients.get(below, ()) if _are_alike(q.expr.inputs[1], log))
            return next(found, None)
    return None


def _are_alike(total: Value, log: TensorView) -> bool:
    """True for a number of each row and its logarithm, spread alike."""
    while isinstance(total, TensorView) and total.family is Family.VIEW:
        if log.definition is None or not _is_same_view(log.definition, total.expr):
            return False
        (total,), (log,) = total.expr.tensors, log.expr.tensors
    return log.is_of("log") and log.expr.inputs == (total,)


def _is_same_view(first: Expr, second: Expr) -> bool:
    return (first.op, first.attrs) == (second.op, second.attrs) and len(first.tensors) == 1


def _rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    match tv.definition, inputs:
        case Expr(OpDef(name="log")), (
            TensorView(
                definition=Expr(
                    OpDef(name="div"),
                    (TensorView(definition=Expr() as raised) as term, TensorView() as total),
                )
            ) as share,
        ) if _is_below_its_row(term) and (log := _log(total)) is not None:
            vanishes = call("eq", share, sc.constant(0.0))
            difference = call("sub", raised.inputs[0], log)
            return call("where", vanishes, sc.constant(float("-inf")), difference)
        case Expr(OpDef(name="exp")), (
            TensorView(definition=Expr(OpDef(name="sub"), (TensorView() as below, log))),
        ) if isinstance(log, TensorView) and exponent_summed(log) is below:
            total = _total(log)
            (term,) = behind_views(total).expr.tensors
            return call("div", term, total)
        case Expr(OpDef(name="where")), (TensorView() as test, nothing, TensorView() as product):
            asked = _share(test, nothing)
            return None if asked is None else _weighed(asked, product)
        case Expr(OpDef(name="sub")), (TensorView() as first, TensorView() as second):
            return _together(first, second)
    return None


def _share(test: TensorView, nothing: Value) -> TensorView | None:
    """The share of a softmax that is asked for 0, where 0 is in its place then."""
    match test.definition:
        case Expr(OpDef(name="eq"), (TensorView() as share, zero)) if share.is_of("div"):
            return share if is_zero(zero) and is_zero(nothing) else None
    return None


def _weighed(share: TensorView, product: TensorView) -> TensorView | None:
    """A share times its own logarithm, -inf where it vanishes, in a product that is 0 then."""
    chosen = _beside(share, product) if product.is_of("mul") else None
    raised = share.expr.inputs[0]
    match chosen:
        case TensorView(
            definition=Expr(OpDef(name="where"), (TensorView() as test, _, TensorView() as log))
        ) if log.is_of("sub") and share in test.producers:
            below, total = log.expr.inputs
        case _:
            return None
    if not (
        isinstance(raised, TensorView) and raised.is_of("exp") and isinstance(total, TensorView)
    ):
        return None
    if raised.expr.inputs != (below,) or exponent_summed(total) is not below:
        return None
    distance = call("where", call("eq", raised, sc.constant(0.0)), sc.constant(0.0), below)
    return call("mul", share, call("sub", distance, total))


def _together(first: TensorView, second: TensorView) -> TensorView | None:
    """What the difference of two products of one share with logarithms of shares is."""
    if not (first.is_of("mul") and second.is_of("mul")):
        return None
    for share in first.producers:
        others = [_beside(share, product) for product in (first, second)]
        logs = [x for x in others if isinstance(x, TensorView) and _is_log(x)]
        if share.is_of("div") and len(logs) == 2:
            return call("mul", share, call("sub", *logs))
    return None


def _is_log(tv: TensorView) -> bool:
    """True for that of a share of a softmax."""
    match tv.definition:
        case Expr(OpDef(name="sub"), (TensorView() as below, TensorView() as total)):
            return exponent_summed(total) is in_sight(below)
    return False


def _beside(factor: TensorView, product: TensorView) -> Value | None:
    """The other one of two factors; None where `factor` is none of them."""
    a, b = product.expr.inputs
    return b if a is factor else a if b is factor else None


def _is_below_its_row(term: TensorView) -> bool:
    """True for exp(x - m), of which a row has one m."""
    match term.definition:
        case Expr(OpDef(name="exp"), (TensorView(definition=Expr(OpDef(name="sub"), (_, top))),)):
            is_spread = isinstance(top, TensorView) and _is_spread(top)
            return is_spread or distance_from_max(term) is not None
    return False


def _is_spread(tv: TensorView) -> bool:
    made = tv.definition
    if made is None or made.op.family is not Family.VIEW:
        return False
    (inner,) = made.tensors
    return prod(inner.shape) < prod(tv.shape) or _is_spread(inner)


def _log(total: TensorView) -> TensorView | None:
    """That of each row, spread as the total of a row is; None where it is of each element."""
    made = total.definition
    if made is None or made.op.family is not Family.VIEW:
        return None
    (inner,) = made.tensors
    log = call("log", inner) if prod(inner.shape) < prod(total.shape) else _log(inner)
    if log is None:
        return None
    return again(made, [log])


def _total(log: TensorView) -> TensorView:
    """That of which the logarithm of each row is spread."""
    (inner,) = log.expr.tensors
    return inner if log.is_of("log") else again(log.expr, [_total(inner)])
