"""Multiply a sum by what its rows have one of, rather than its terms.

    T3 = neg(mul(rstd, T2));  T4 = sum(T3, dims=[1])
        =>   T4 = sum(T2, dims=[1]);  T5 = mul(rstd, T4);  T6 = neg(T5)

Of rows that blocks walk, with sums down their columns: a block meets at a barrier for what a row
comes to, and a value that comes from memory in every turn is late if the terms need it. Behind the
barrier it is there. The rest of the kernel still reads the terms, and values per element that only
the sum needed are saved.

Only of f32 and f64 throughout, since nothing is rounded there that was not before. Where such a
factor is infinite, and terms have both signs, the sum is infinite instead of NaN.
"""

from __future__ import annotations

from math import prod

from thunder_fuser.analysis.digits import atom
from thunder_fuser.analysis.layout import Layout, dense_strides, offset_of
from thunder_fuser.analysis.reductions import is_long, plane_of, row_shape
from thunder_fuser.analysis.views import follow
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.presegment.split_reductions import constants, is_summed


def factor_sums(fusion: Fusion) -> Fusion:
    """`fusion` with such factors behind the sums along rows of planes that are walked."""
    planes = {plane_of(tv) for tv in fusion.tensors if is_summed(tv)}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        is_along = is_long(tv) and row_shape(tv) is not None
        if not (is_along and plane_of(tv) in planes and _is_sum(tv)):
            return None
        (terms,) = inputs
        assert isinstance(terms, TensorView)
        return _summed(tv, terms) if _has_factor(tv, terms) else None

    return rewrite(fusion, rule)


def _is_sum(tv: TensorView) -> bool:
    return tv.definition is not None and tv.definition.op.name == "sum"


def _has_factor(tv: TensorView, terms: TensorView) -> bool:
    """True where a factor of the `terms` of a sum is the same in all of a row."""
    match _step(terms):
        case ("neg", (TensorView() as x,)):
            return _has_factor(tv, x)
        case ("mul", (TensorView() as a, TensorView() as b)):
            return _per_row(tv, a) is not None or _per_row(tv, b) is not None
    return False


def _summed(tv: TensorView, terms: TensorView) -> TensorView:
    """The sum `tv` of such terms."""
    match _step(terms):
        case ("neg", (TensorView() as x,)):
            return call("neg", _summed(tv, x))
        case ("mul", (TensorView() as a, TensorView() as b)):
            for factor, other in ((a, b), (b, a)):
                of_row = _per_row(tv, factor)
                if of_row is not None:
                    return call("mul", of_row, _summed(tv, other))
    assert tv.definition is not None
    made = apply(tv.definition.op, [terms], dict(tv.definition.attrs))
    assert isinstance(made, TensorView)
    return made


def _step(terms: TensorView) -> tuple[str, tuple[Value, ...]] | None:
    """What makes the terms, an op and its operands, if it rounds to their type alone."""
    match terms.definition:
        case Expr(op=row, inputs=values) if terms.dtype.is_floating and not (
            terms.dtype.is_reduced_precision
        ):
            return row.name, values
    return None


def _per_row(tv: TensorView, factor: TensorView) -> TensorView | None:
    """What a factor of the terms of `tv` repeats along its rows, in the shape of `tv`; None for a
    factor that differs along them."""
    assert tv.definition is not None
    dims = tv.definition.attr("dims")
    assert isinstance(dims, tuple)
    chain = follow(factor, lambda _: False)
    if chain is None or chain.root.dtype is not tv.dtype:
        return None
    root, kept = chain.root, [a for k, a in enumerate(factor.logical) if k not in dims]
    of_row = offset_of(_dense(tv), tuple(map(atom, kept)))
    is_whole = prod(root.shape) == prod(tv.shape)
    if not is_whole or offset_of(_dense(root), chain.index) != of_row:
        return None
    return root if root.shape == tv.shape else call("reshape", root, new_shape=constants(tv.shape))


def _dense(tv: TensorView) -> Layout:
    return Layout(tv.shape, dense_strides(tv.shape))
