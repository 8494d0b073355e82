"""Look for the largest share of a softmax among the elements.

    T3 = max(T0);  T6 = div(exp(sub(T0, T3)), T5);  T9 = argmax(T6)
        =>   T7 = where(lt(T0, T3), 2^31 - 1, index);  T9 = min(T7)

as of routers, which count the tokens that each expert gets. Keys of f32 shares have 64 bits
(`frontend/extrema.py`), and wait for the sum: eleven instructions an element for three, and a phase
of a row. The first element of several that are equal is the first of equal shares. Not with
`strict`: of elements whose shares are rounded alike the largest one is taken, not the first, and
where the largest is infinite, of a row of NaN, the first of such.
"""

from __future__ import annotations

from thunder_fuser.analysis.precision import is_guarded
from thunder_fuser.analysis.reductions import terms_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import constant
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef
from thunder_fuser.presegment.factor_sums import OfRows
from thunder_fuser.presegment.fold_maxima import largest_share
from thunder_fuser.presegment.stages import constants

NOWHERE = 2**31 - 1  # no place in a row


def fold_places(fusion: Fusion) -> Fusion:
    """`fusion` with such places."""
    return rewrite(fusion, _place)


def _place(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    match inputs:
        case (TensorView(definition=Expr(OpDef(name="bitwise_and"), (TensorView() as best, _))), _):
            found = _shares(best) if tv.is_of("bitwise_xor") and best.is_of("max") else None
            return None if found is None else call("cast", _first(best, found), dtype=tv.dtype)
    return None


def _shares(best: TensorView) -> TensorView | None:
    """The shares whose places the maximum `best` of keys is of; None for other keys, and for what
    may rise otherwise than its elements do."""
    match terms_of(best).definition:
        case Expr(
            OpDef(name="bitwise_or"),
            (TensorView(definition=Expr(OpDef(name="mul"), (TensorView() as key, _))), _),
        ) if key.is_of("order_key"):
            (shares,) = key.producers
            rows = OfRows(call("max", shares, dims=best.expr.dims()))
            rises = largest_share(shares, rows) is not None and not is_guarded(_below(shares)[1])
            return shares if rises else None
    return None


def _below(shares: TensorView) -> tuple[TensorView, TensorView]:
    """The elements, and the largest of each row beside them."""
    raised = shares.expr.tensors[0] if shares.is_of("div") else shares
    x, top = raised.expr.tensors[0].expr.tensors
    return x, top


def _first(best: TensorView, shares: TensorView) -> TensorView:
    (dim,), (x, top) = best.expr.dims(), _below(shares)
    zero, one = constant(0), constant(1)
    count = call("iota", zero, one, length=constants([x.shape[dim]]), dtype=DataType.Int32)
    flags = tuple(k != dim for k in range(x.ndim))
    index = call("broadcast", count, is_broadcast_dim=flags)
    places = call("where", call("lt", x, top), constant(NOWHERE), index)
    return call("min", places, dims=(dim,))
