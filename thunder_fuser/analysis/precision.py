"""Which f32 values the fast form of an op is good enough for."""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import Expr, TensorView
from thunder_fuser.ops import Family, OpDef


def fast_enough(fusion: Fusion) -> frozenset[TensorView]:
    """Those of which a relative error of 2^-14, or of 2^-24 per unit of an exponent, cannot be
    found in any result."""
    return ends_narrow(fusion) | exponents_below_max(fusion)


def ends_narrow(fusion: Fusion) -> frozenset[TensorView]:
    """The f32-computed tensors whose every use ends, through floating-point ops, in a returned or
    written f16 or bf16. An error of 2^-14 in one of them vanishes in the final rounding, unless a
    comparison, a jump (floor, remainder), an integer or a wider result depends on it."""
    roots = frozenset(fusion.roots)
    wide: set[TensorView] = set()
    for tv in reversed(fusion.tensors):
        is_float = tv.dtype.is_floating and tv.dtype is not DataType.Double
        if not is_float or (tv in roots and not tv.dtype.is_reduced_precision):
            wide.add(tv)
        if tv.definition is not None and (tv in wide or tv.definition.op.is_step):
            wide.update(tv.definition.tensors)
    return frozenset(tv for tv in fusion.tensors if tv not in wide)


def exponents_below_max(fusion: Fusion) -> frozenset[TensorView]:
    """The terms exp(x - max(x)) of a sum, read by nothing else: softmax's denominator.

    The fast exponential of -d is off by d * 2^-24, and d * exp(-d) < 0.37: together the terms are
    as exact as the sum of their exact values is, whose largest term is 1.
    """
    roots, uses = frozenset(fusion.roots), fusion.uses
    return frozenset(
        tv
        for tv in fusion.tensors
        if tv not in roots
        and tv.dtype is DataType.Float
        and distance_from_max(tv) is not None
        and all(map(_is_sum, uses[tv]))
    )


def distance_from_max(tv: TensorView) -> TensorView | None:
    """The maximum m of x where `tv` is exp(x - m), or exp(x - n) for a number n wherever m is
    infinite."""
    match tv.definition:
        case Expr(OpDef(name="exp"), (TensorView(definition=Expr() as below),)):
            pass
        case _:
            return None
    match below:
        case Expr(OpDef(name="sub"), (TensorView() as x, TensorView() as top)):
            return _max_of(top, x)
    return None


def is_guarded(tv: TensorView) -> bool:
    """True where `distance_from_max` is from a number if the maximum is infinite."""
    top = tv
    while top.definition is not None and top.definition.op.name != "max":
        if top.definition.op.name == "where":
            return True
        top = top.definition.tensors[-1]
    return False


def _max_of(top: TensorView, x: TensorView) -> TensorView | None:
    while True:
        match top.definition:
            case Expr(OpDef(family=Family.VIEW), (TensorView() as source,)):
                top = source
            case Expr(OpDef(name="where"), (_, _, TensorView() as source)):
                top = source
            case Expr(OpDef(name="max"), (source,)):
                return top if source is x else None
            case _:
                return None


def _is_sum(tv: TensorView) -> bool:
    return tv.definition is not None and tv.definition.op.name == "sum"
