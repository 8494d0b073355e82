"""Sum the parts of terms apart, where one of them waits for another sum of the same rows.

    T2 = sum(T0, dims=[1]);  T5 = sum(add(mul(c, T1), mul(T2, T3)), dims=[1])
        =>   T4 = sum(T1, dims=[1]);  T6 = sum(T3, dims=[1]);  T5 = add(mul(c, T4), mul(T2, T6))

The gradient of a layer norm that is written out is so: its second sum has terms of which a part is
multiplied by the first. Then all sums are known at once: what a row is read, computed and waited
for between two of them is saved. So are sums of a softmax's shares by its own logarithm, that of
another one, or anything, as entropies and divergences are:

    T3 = sum(exp(T0));  T4 = sum(mul(div(exp(T0), T3), sub(T0, log(T3))))
        =>   T5 = sum(mul(exp(T0), T0));  T4 = mul(div(1, T3), sub(T5, mul(log(T3), T3)))

Only of f32 and f64 throughout, since nothing is rounded there that was not before. What both parts
have in common cancels in their sums instead of in each element, where it was rounded too: of
`sum(x * w - mean * w)` over 768 elements, 1,000 deviations from zero, the error was twice eager's,
of a layer norm's gradients, which subtract the mean first, what it was without this. A part may
wait for an extremum: the gradient of one is divided by how many elements equal it, and what sums
that gradient counts them at once. A part that is the same in all of a row and waits is left, as a
mean that is subtracted before a sum: there the difference is exact. From the distance to a maximum
the logarithm of the sum of exponentials is not: what is below 0 becomes less. Not with `strict`:
where a factor that was drawn out is infinite, and terms have both signs, the sum is infinite
instead of NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from thunder_fuser.analysis.precision import exponent_summed
from thunder_fuser.analysis.reductions import terms_of
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import Attr, Expr, TensorView, Value
from thunder_fuser.ops import OpDef
from thunder_fuser.presegment.factor_sums import OfRows, exact_step, of_rows

Rows: TypeAlias = tuple[tuple[int, ...], Attr]  # a plane, and the dims that are reduced
Attrs: TypeAlias = tuple[tuple[str, Attr], ...]
Drawn: TypeAlias = tuple[TensorView | None, TensorView | None]  # factors of a row, and others


def sum_apart(fusion: Fusion) -> Fusion:
    """`fusion` with such sums in parts."""
    sums = {tv for tv in fusion.tensors if tv.is_of("sum")}
    behind = _Waiting(lambda tv: tv in sums)
    waiting = {tv for tv in sums if behind.waits(terms_of(tv), _rows(tv))}
    known: dict[object, OfRows] = {}
    made = {(terms_of(tv), tv.expr.attrs): tv for tv in sums - waiting}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if tv not in waiting:
            return None
        (terms,) = inputs
        return _Parts(tv, of_rows(tv, known), behind, made).sum(terms)

    return rewrite(fusion, rule) if waiting else fusion


def _rows(reduction: TensorView) -> Rows:
    """Which rows a reduction is of."""
    return terms_of(reduction).shape, reduction.expr.attr("dims")


@dataclass(frozen=True)
class _Waiting:
    """What waits for one of some sums of the same rows."""

    is_one: Callable[[TensorView], bool]
    known: dict[Rows, dict[TensorView, bool]] = field(default_factory=dict)

    def waits(self, terms: TensorView, rows: Rows) -> bool:
        """True for terms that depend on such a sum of these rows, or are one."""
        found = self.known.setdefault(rows, {})
        for tv in topological([terms], found):
            if tv not in found:
                is_one = self.is_one(tv) and _rows(tv) == rows
                found[tv] = is_one or any(found[p] for p in tv.producers)
        return found[terms]


@dataclass
class _Parts:
    """The parts of the terms of the sum `tv`, some of which wait for another one."""

    tv: TensorView
    rows: OfRows
    late: _Waiting
    made: dict[tuple[TensorView, Attrs], TensorView]
    found: dict[TensorView, TensorView | None] = field(default_factory=dict)
    drawn: dict[TensorView, Drawn] = field(default_factory=dict)

    def sum(self, terms: Value) -> TensorView | None:
        """Of such terms, no part of which waits for a sum of the same rows; None where one does,
        and of a number or a 0-d tensor."""
        if not (isinstance(terms, TensorView) and self.rows.are_terms(terms)):
            return None
        if terms not in self.found:
            is_late = self.late.waits(terms, _rows(self.tv))
            self.found[terms] = self._taken_apart(terms) if is_late else self._summed(terms)
        return self.found[terms]

    def _summed(self, terms: TensorView) -> TensorView:
        key = terms, self.tv.expr.attrs
        if key not in self.made:
            self.made[key] = again(self.tv.expr, [terms])
        return self.made[key]

    def _taken_apart(self, terms: TensorView) -> TensorView | None:
        match exact_step(terms):
            case ("neg", (x,)) if (part := self.sum(x)) is not None:
                return call("neg", part)
            case ("sub", (a, b)) if (product := self._of_logarithms(a, b)) is not None:
                return self._taken_apart(product)
            case ("add" | "sub" as op, (a, b)):
                first, second = self.sum(a), self.sum(b)
                return None if first is None or second is None else call(op, first, second)
            case ("mul", (a, b)):
                for factor, other in ((a, b), (b, a)):
                    of_row = self.rows.value(factor)
                    if of_row is not None and (part := self.sum(other)) is not None:
                        return call("mul", of_row, part)
                drawn, rest = self._drawn_out(terms)
                if drawn is not None and rest is not None and (part := self.sum(rest)) is not None:
                    return call("mul", drawn, part)
                return self._weighted(a, b) or self._weighted(b, a)
            case ("div", (a, b)) if (of_row := self.rows.value(b)) is not None:
                return None if (part := self.sum(a)) is None else call("div", part, of_row)
        return None

    def _of_logarithms(self, a: Value, b: Value) -> TensorView | None:
        """The difference of two products as one, of a weight and a difference of logarithms of
        shares: what these have in common cancels in each element."""
        first, second = (exact_step(x) if isinstance(x, TensorView) else None for x in (a, b))
        match first, second:
            case ("mul", (TensorView() as weight, one)), ("mul", (same, other)) if weight is same:
                pass
            case _:
                return None
        if self._logarithm(one) is None or self._logarithm(other) is None:
            return None
        return call("mul", weight, call("sub", one, other))

    def _weighted(self, weight: Value, terms: Value) -> TensorView | None:
        """The sum of a product with logarithms of shares, whose weights wait for nothing."""
        found = self._logarithm(terms)
        if found is None or not isinstance(weight, TensorView):
            return None
        distance, log = found
        first, weights = self.sum(call("mul", weight, distance)), self.sum(weight)
        if first is None or weights is None:
            return None
        return call("sub", first, call("mul", log, weights))

    def _logarithm(self, tv: Value) -> tuple[TensorView, Value] | None:
        """t and log(sum(exp(t))) of their difference, t below a maximum, and of a difference of
        two such what both differ by."""
        match exact_step(tv) if isinstance(tv, TensorView) else None:
            case ("sub", (TensorView() as below, TensorView() as log)) if (
                exponent_summed(log) is _unbounded(below)
                and (of_row := self.rows.value(log)) is not None
            ):
                return below, of_row
            case ("sub", (a, b)) if (first := self._logarithm(a)) is not None and (
                second := self._logarithm(b)
            ) is not None:
                return call("sub", first[0], second[0]), call("sub", first[1], second[1])
        return None

    def _drawn_out(self, product: TensorView) -> Drawn:
        """What the factors of a product that wait and are the same in all of a row come to, and the
        product of its others; None for no such."""
        if product not in self.drawn:
            self.drawn[product] = self._factors(product)
        return self.drawn[product]

    def _factors(self, product: TensorView) -> Drawn:
        if not self.late.waits(product, _rows(self.tv)):
            return None, product
        if isinstance(of_row := self.rows.value(product), TensorView):
            return of_row, None
        match exact_step(product):
            case ("mul", (TensorView() as a, TensorView() as b)):
                (first, rest), (second, other) = self._drawn_out(a), self._drawn_out(b)
                return _product(first, second), _product(rest, other)
            case ("div", (TensorView() as a, b)) if isinstance(
                of_row := self.rows.value(b), TensorView
            ):
                drawn, rest = self._drawn_out(a)
                return _product(drawn, call("div", sc.constant(1.0), of_row)), rest
        return None, product


def _unbounded(below: TensorView) -> TensorView:
    """What is left of a distance where a share of it vanishes."""
    match below.definition:
        case Expr(OpDef(name="maximum"), (TensorView() as distance, Constant())):
            return distance
    return below


def _product(a: TensorView | None, b: TensorView | None) -> TensorView | None:
    if a is None or b is None:
        return b if a is None else a
    return call("mul", a, b)
