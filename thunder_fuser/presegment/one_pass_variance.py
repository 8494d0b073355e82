"""Sum squared distances from a mean in the pass that sums the mean.

    T1 = sum(T0);  T2 = truediv(T1, n);  T3 = sub(T0, T2);  T4 = sum(mul(T3, T3))
        =>   T1 = sum(T0);  T4 = squared_deviation(T0)

Where a block keeps a row or a column, the distances come from registers, and two passes are the
more exact. So only what would be read again from memory is rewritten: sums down columns that are
long, or that nothing is stored behind, and of rows that several blocks share.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TypeAlias

from thunder_fuser.analysis.access import reads_in_place
from thunder_fuser.analysis.precision import behind_views
from thunder_fuser.analysis.reductions import is_long, mark_of
from thunder_fuser.analysis.shared_rows import Test, read_twice
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops.reductions import SQUARED_DEVIATION

Dims: TypeAlias = tuple[int, ...]


def one_pass_variance(fusion: Fusion, is_shared: Test) -> Fusion:
    """`fusion` with such sums in one pass. Several blocks share each row of a sum that
    `is_shared`."""
    return rewrite(fusion, partial(_rule, read_twice(fusion, is_shared)))


def _rule(is_read_twice: Test, tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    if not (tv.is_of("sum") and is_long(tv) and is_read_twice(tv)):
        return None
    (operand,) = inputs
    assert isinstance(operand, TensorView)
    squares, dims, order = _unturned(operand, tv.expr.dims())
    match squares.definition:
        case Expr(op=row, inputs=(TensorView() as a, b)) if (
            row.name == "mul" and a is b and tv.dtype is a.dtype
        ):
            x = _centred(a, dims)
            if x is None:
                return None
            turned = x if order is None else call("permute", x, dims=order)
            return produce(SQUARED_DEVIATION, [turned], {"dims": tv.expr.dims(), **mark_of(tv)})
    return None


def _unturned(operand: TensorView, dims: Dims) -> tuple[TensorView, Dims, Dims | None]:
    """The tensor that `operand` is a permutation of, `dims` among its own, and the permutation."""
    if not operand.is_of("permute"):
        return operand, dims, None
    order = operand.expr.dims()
    own = (dim for k, dim in enumerate(order) if k in dims)
    return operand.producers[0], tuple(sorted(own)), order


def _centred(distance: TensorView, dims: Dims) -> TensorView | None:
    """x, where `distance` is x - mean(x) over `dims`; else None."""
    match distance.definition:
        case Expr(op=row, inputs=(TensorView() as x, TensorView() as spread)) if (
            row.name == "sub" and x.dtype in SQUARED_DEVIATION.dtypes
        ):
            mean = behind_views(spread)
            if _is_mean(mean, x, dims) and reads_in_place(distance, x, mean, dims):
                return x
    return None


def _is_mean(mean: TensorView, x: TensorView, dims: Dims) -> bool:
    match mean.definition:
        case Expr(op=row, inputs=(TensorView(definition=Expr() as total) as of, Constant(n))) if (
            row.name == "truediv" and of.is_of("sum")
        ):
            count = prod(a.size for a in of.domain.logical if a.is_reduction)
            operand, summed, _ = _unturned(total.tensors[0], total.dims())
            return n == count and summed == dims and operand is x
    return False
