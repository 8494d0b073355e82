"""Multiply a sum by what its rows have one of, rather than its terms.

    T3 = neg(mul(rstd, T2));  T4 = sum(T3, dims=[1])
        =>   T4 = sum(T2, dims=[1]);  T5 = mul(rstd, T4);  T6 = neg(T5)

Of rows that blocks walk, with sums down their columns: a block meets at a barrier for what a row
comes to, and a value that comes from memory in every turn is late if the terms need it. Behind the
barrier it is there. The rest of the kernel still reads the terms, and values per element that only
the sum needed are saved.

Only of f32 and f64 throughout, since nothing is rounded there that was not before. Not with
`strict`: where such a factor is infinite, and terms have both signs, the sum is infinite instead of
NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from thunder_fuser.analysis.digits import atom
from thunder_fuser.analysis.layout import numbered, offset_of
from thunder_fuser.analysis.reductions import is_along, is_summed, plane_of, terms_of
from thunder_fuser.analysis.views import follow
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.stages import reshaped


def factor_sums(fusion: Fusion) -> Fusion:
    """`fusion` with such factors behind the sums along rows of planes that are walked."""
    planes = {plane_of(tv) for tv in fusion.tensors if is_summed(tv)}
    known: dict[object, OfRows] = {}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if not (tv.is_of("sum") and is_along(tv) and plane_of(tv) in planes):
            return None
        (terms,) = inputs
        assert isinstance(terms, TensorView)
        rows = of_rows(tv, known)
        return _summed(rows, terms) if _has_factor(rows, terms) else None

    return rewrite(fusion, rule)


def _has_factor(rows: OfRows, terms: TensorView) -> bool:
    """True where a factor of the `terms` of a sum is the same in all of a row."""
    match exact_step(terms):
        case ("neg", (TensorView() as x,)):
            return _has_factor(rows, x)
        case ("mul", (TensorView() as a, TensorView() as b)):
            return rows.value(a) is not None or rows.value(b) is not None
    return False


def _summed(rows: OfRows, terms: TensorView) -> TensorView:
    """The sum of such terms."""
    match exact_step(terms):
        case ("neg", (TensorView() as x,)):
            return call("neg", _summed(rows, x))
        case ("mul", (TensorView() as a, TensorView() as b)):
            for factor, other in ((a, b), (b, a)):
                of_row = rows.value(factor)
                if of_row is not None and rows.are_terms(other):
                    return call("mul", of_row, _summed(rows, other))
    return again(rows.tv.expr, [terms])


def exact_step(terms: TensorView) -> tuple[str, tuple[Value, ...]] | None:
    """What makes the terms, an op and its operands, if it rounds to their type alone."""
    match terms.definition:
        case Expr(op=row, inputs=values) if terms.dtype.is_floating and not (
            terms.dtype.is_reduced_precision
        ):
            return row.name, values
    return None


def of_rows(tv: TensorView, known: dict[object, OfRows]) -> OfRows:
    """What the rows that `tv` is of have one of: what is `known` from sums of the same rows. The
    terms of each layer are made of those before, which would be looked at for each anew."""
    return known.setdefault((terms_of(tv).shape, tv.expr.attrs, tv.dtype), OfRows(tv))


@dataclass
class OfRows:
    """What the rows that the sum `tv` is of have one of, as all that differ from it in their terms
    alone."""

    tv: TensorView
    found: dict[TensorView, Value | None] = field(default_factory=dict)

    def value(self, factor: Value) -> Value | None:
        """What a factor of the terms repeats along their rows, in the shape of the sum, or a number
        or 0-d tensor that it is everywhere; None for a factor that differs along them."""
        if not isinstance(factor, TensorView):
            return factor
        if not self.are_terms(factor):
            return factor if factor.ndim == 0 and factor.dtype is self.tv.dtype else None
        if factor not in self.found:
            self.found[factor] = self._computed(factor) or self._repeated(factor)
        return self.found[factor]

    def are_terms(self, values: TensorView) -> bool:
        """True for values of the plane. Operands of fewer dims or elements are broadcast to it."""
        return values.shape == terms_of(self.tv).shape

    def _computed(self, factor: TensorView) -> TensorView | None:
        """One that is computed from others."""
        made = factor.definition
        if exact_step(factor) is None or made is None or made.op.family is not Family.POINTWISE:
            return None
        inputs = [self.value(x) for x in made.inputs]
        values = [x for x in inputs if x is not None]
        return again(made, values) if len(values) == len(inputs) else None

    def _repeated(self, factor: TensorView) -> TensorView | None:
        """One that is a view of what there is one of per row, or whole numbers of a cast."""
        dims, chain = self.tv.expr.dims(), follow(factor, lambda _: False)
        if chain is None:
            return None
        if chain.root.dtype is not self.tv.dtype and not chain.root.dtype.is_integral:
            return None
        root, kept = chain.root, [a for k, a in enumerate(factor.logical) if k not in dims]
        of_row = offset_of(numbered(self.tv), tuple(map(atom, kept)))
        is_whole = prod(root.shape) == prod(self.tv.shape)
        if not is_whole or offset_of(numbered(root), chain.index) != of_row:
            return None
        return reshaped(root, self.tv.shape)
