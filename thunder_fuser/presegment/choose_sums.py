"""Choose between two sums of what many elements share, in place of adding a product with 0 or 1.

    T4: f32 = where(T3, 1, 0);  T5 = mul(T4, T2);  T6 = add(T1, T5)
        =>   T7 = add(T1, T2);  T6 = where(T3, T7, T1)

where T1 and T2 have one element each along a dim of the mask T3, as what each class of an image has
in the gradient of a Dice loss, whose target is a one-hot: what is added is computed once for all
elements, and one select is left of a select, a product and a sum. Not with `strict`: an infinite
number makes a NaN of a 0 there.
"""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import Family, OpDef
from thunder_fuser.presegment.pick_terms import is_same


def choose_sums(fusion: Fusion) -> Fusion:
    """`fusion` with such choices."""
    return rewrite(fusion, _choose)


def _choose(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    if tv.expr.op.name != "add" or tv.dtype not in (DataType.Float, DataType.Double):
        return None
    for always, product in (inputs, inputs[::-1]):
        if not isinstance(always, TensorView) or always.dtype is not tv.dtype:
            continue
        match product:
            case TensorView(definition=Expr(OpDef(name="mul"), factors)) if (
                product.dtype is tv.dtype
            ):
                found = _chosen(tv, always, factors)
                if found is not None:
                    return found
    return None


def _chosen(tv: TensorView, always: TensorView, factors: tuple[Value, ...]) -> TensorView | None:
    """`always`, and the sum of that and of one of the factors where the other one is 1, not 0."""
    for number, other in (factors, factors[::-1]):
        if not isinstance(number, TensorView) or not isinstance(other, TensorView):
            continue
        if other.dtype is not tv.dtype or not _are_shared(tv, always, other):
            continue
        mask = _mask_of(number)
        if mask is not None and mask.shape == tv.shape:
            return call("where", mask, call("add", always, other), always)
    return None


def _are_shared(tv: TensorView, *sources: TensorView) -> bool:
    """True for what has one element each along a dim of `tv`."""
    whole = all(source.shape == tv.shape for source in sources)
    dims = range(tv.ndim)
    return whole and any(
        tv.shape[dim] > 1 and all(is_same(source, dim) for source in sources) for dim in dims
    )


def _mask_of(tv: TensorView) -> TensorView | None:
    """Where numbers that are 0 or 1 are 1; None for others."""
    if tv.dtype is DataType.Bool:
        return tv
    match tv.definition:
        case Expr(OpDef(name="cast"), (TensorView() as source,)):
            return _mask_of(source)
        case Expr(OpDef(name="where"), (TensorView() as mask, one, zero)):
            is_plain = (_number(one), _number(zero)) == (1, 0) and mask.shape == tv.shape
            return mask if is_plain else None
        case Expr(OpDef(family=Family.VIEW), (TensorView() as source, *sizes)) as expr:
            found = _mask_of(source)
            return None if found is None else again(expr, (found, *sizes))
    return None


def _number(value: Value) -> object:
    """What all elements are; None where that is not known."""
    match value:
        case Constant(found):
            return found
        case TensorView(definition=Expr(OpDef(family=Family.FULL), (number, *_))):
            return _number(number)
        case TensorView(
            definition=Expr(OpDef(family=Family.VIEW) | OpDef(name="cast"), (source, *_))
        ):
            return _number(source)
        case TensorView(definition=Expr(OpDef(name="add"), (left, right))):
            numbers = [_number(left), _number(right)]
            if all(isinstance(n, int) for n in numbers):
                return sum(n for n in numbers if isinstance(n, int))
    return None
