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
        if tv not in roots and _is_distance_from_max(tv) and all(map(_is_sum, uses[tv]))
    )


def _is_distance_from_max(tv: TensorView) -> bool:
    """exp(x - m), where m is x's maximum or, where that is infinite, a number."""
    match tv.definition:
        case Expr(OpDef(name="exp"), (TensorView(definition=Expr() as below),)):
            pass
        case _:
            return False
    match below:
        case Expr(OpDef(name="sub"), (TensorView() as x, TensorView() as top)):
            return tv.dtype is DataType.Float and _is_max_of(top, x)
    return False


def _is_max_of(top: TensorView, x: TensorView) -> bool:
    while True:
        match top.definition:
            case Expr(OpDef(family=Family.VIEW), (TensorView() as source,)):
                top = source
            case Expr(OpDef(name="where"), (_, _, TensorView() as source)):
                top = source
            case Expr(OpDef(name="max"), (source,)):
                return source is x
            case _:
                return False


def _is_sum(tv: TensorView) -> bool:
    return tv.definition is not None and tv.definition.op.name == "sum"
