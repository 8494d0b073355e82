"""When are two extents provably one number? Products of symbols as monomials.

    ceil_div(mul(n, 8), 4)    =>    2 * n

A monomial is a coefficient and its symbolic factors. A division that does not come out even for
every value of the symbols stays a factor of its own, equal only to itself.
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.scalar import Scalar, ScalarExpr


@dataclass(frozen=True)
class Monomial:
    """`coefficient * product(factors)`; the factors are sorted, one entry per power."""

    coefficient: int
    factors: tuple[Scalar, ...] = ()

    def __str__(self) -> str:
        parts = [str(self.coefficient)] if self.coefficient != 1 or not self.factors else []
        return "*".join([*parts, *map(str, self.factors)])


def monomial(extent: Scalar) -> Monomial:
    """The normal form of an extent. Two extents are provably equal where these are."""
    value = sc.static_int(extent)
    if value is not None:
        return Monomial(value)
    if isinstance(extent, ScalarExpr) and extent.op.name == "mul":
        a, b = map(monomial, extent.args)
        factors = sorted((*a.factors, *b.factors), key=str)
        return Monomial(a.coefficient * b.coefficient, tuple(factors))
    if isinstance(extent, ScalarExpr) and extent.op.name == "ceil_div":
        exact = _divide(*map(monomial, extent.args))
        if exact is not None:
            return exact
    return Monomial(1, (extent,))


def _divide(a: Monomial, b: Monomial) -> Monomial | None:
    """`a / b` where `b` divides `a` for every value of the symbols."""
    if b.coefficient <= 0 or a.coefficient % b.coefficient:
        return None
    left = list(a.factors)
    for factor in b.factors:
        if factor not in left:
            return None
        left.remove(factor)
    return Monomial(a.coefficient // b.coefficient, tuple(left))


def same_extent(a: Scalar, b: Scalar) -> bool:
    """Provably equal. Two symbols are not, whatever they may be bound to later."""
    return a is b or monomial(a) == monomial(b)
