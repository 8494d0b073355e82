"""Sum a group that may be long in pieces.

    T5 = group_sum(T0, T2, T4)                   T2: an order of 100,000 places; T4: ends of groups
        =>   T6 = group_pieces(T0, T2, T3, size=64)     T3: the keys whose ends T4 holds
             T5 = group_sum_of_pieces(T0, T2, T4, T6, size=64)

A block that finds a row with most places of an order would add them for longer than all others take
together. Pieces of the order are summed by as many blocks as there are pieces. One that lies in
several groups is left to those, so all that is read twice are the sums of pieces.
"""

from __future__ import annotations

from thunder_fuser.analysis.reductions import is_ordering
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value

SIZE = 64  # terms of a piece
MIN_TERMS = 4096  # of an order, below which one block is done in time with all of them


def split_groups(fusion: Fusion) -> Fusion:
    """`fusion` with its long sums of groups in two stages. Inputs stay the same tensors."""
    return rewrite(fusion, _split)


def _split(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    expr = tv.expr
    if expr.op.name != "group_sum":
        return None
    x, order, ends = inputs
    assert isinstance(x, TensorView)
    assert isinstance(order, TensorView)
    assert isinstance(ends, TensorView)
    if order.shape[0] < MIN_TERMS or not is_ordering(ends) or ends.definition is None:
        return None
    (keys,) = ends.definition.tensors
    dim, skip = expr.dim, expr.attr("skip")
    pieces = call("group_pieces", x, order, keys, dim=dim, skip=skip, size=SIZE)
    return call("group_sum_of_pieces", x, order, ends, pieces, dim=dim, skip=skip, size=SIZE)
