"""Sum the parts of terms apart, where one of them waits for another sum of the same rows.

    T2 = sum(T0, dims=[1]);  T5 = sum(add(mul(c, T1), mul(T2, T3)), dims=[1])
        =>   T4 = sum(T1, dims=[1]);  T6 = sum(T3, dims=[1]);  T5 = add(mul(c, T4), mul(T2, T6))

The gradient of a layer norm that is written out is so: its second sum has terms of which a part is
multiplied by the first. Then all sums are known at once: what a row is read, computed and waited
for between two of them is saved.

Only of f32 and f64 throughout, since nothing is rounded there that was not before: what is computed
of each element is no more exact than the sums of its parts. A part that is the same in all of a row
and waits is left, such as a mean that is subtracted before a sum: there the difference is exact.
Where a factor that was drawn out is infinite, and terms have both signs, the sum is infinite
instead of NaN.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from thunder_fuser.analysis.reductions import is_long, is_scan
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.factor_sums import OfRows, exact_step, summed_alike


def sum_apart(fusion: Fusion) -> Fusion:
    """`fusion` with such sums in parts."""
    sums = [tv for tv in fusion.tensors if _is_sum(tv)]
    waiting = {tv for tv in sums if _above(tv) & {*sums}}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if tv not in waiting:
            return None
        (terms,) = inputs
        assert isinstance(terms, TensorView)
        return _Parts(tv, OfRows(tv)).sum(terms)

    return rewrite(fusion, rule) if waiting else fusion


def _is_sum(tv: TensorView) -> bool:
    made = tv.definition
    return made is not None and made.op.name == "sum" and is_long(tv) and not is_scan(tv)


def _rows(tv: TensorView) -> tuple[tuple[int, ...], object]:
    """The plane that a reduction is of, and the dims that it reduces."""
    assert tv.definition is not None
    return tv.definition.tensors[0].shape, tv.definition.attr("dims")


def _above(tv: TensorView) -> set[TensorView]:
    """The long reductions of the same rows that the terms of `tv` wait for."""
    assert tv.definition is not None
    found = topological(tv.definition.tensors)
    made = (t for t in found if t.definition and t.definition.op.family is Family.REDUCTION)
    return {t for t in made if is_long(t) and _rows(t) == _rows(tv)}


@dataclass
class _Parts:
    """The parts of the terms of the sum `tv`."""

    tv: TensorView
    rows: OfRows
    found: dict[TensorView, TensorView | None] = field(default_factory=dict)

    def sum(self, terms: Value) -> TensorView | None:
        """Of such terms, no part of which waits for a sum of the same rows; None where one does."""
        if not isinstance(terms, TensorView):
            return None
        if terms not in self.found:
            self.found[terms] = self._whole(terms) or self._taken_apart(terms)
        return self.found[terms]

    def _taken_apart(self, terms: TensorView) -> TensorView | None:
        match exact_step(terms):
            case ("neg", (x,)) if (part := self.sum(x)) is not None:
                return call("neg", part)
            case ("add" | "sub" as op, (a, b)):
                first, second = self.sum(a), self.sum(b)
                return None if first is None or second is None else call(op, first, second)
            case ("mul", (a, b)):
                for factor, other in ((a, b), (b, a)):
                    of_row = self.rows.value(factor)
                    if of_row is not None and (part := self.sum(other)) is not None:
                        return call("mul", of_row, part)
        return None

    def _whole(self, terms: TensorView) -> TensorView | None:
        made = summed_alike(self.tv, terms)
        return None if _above(made) else made
