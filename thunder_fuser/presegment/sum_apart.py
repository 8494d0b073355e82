"""Sum the parts of terms apart, where one of them waits for another sum of the same rows.

    T2 = sum(T0, dims=[1]);  T5 = sum(add(mul(c, T1), mul(T2, T3)), dims=[1])
        =>   T4 = sum(T1, dims=[1]);  T6 = sum(T3, dims=[1]);  T5 = add(mul(c, T4), mul(T2, T6))

The gradient of a layer norm that is written out is so: its second sum has terms of which a part is
multiplied by the first. Then all sums are known at once: what a row is read, computed and waited
for between two of them is saved.

Only of f32 and f64 throughout, since nothing is rounded there that was not before. What both parts
have in common cancels in their sums instead of in each element, where it was rounded too: of
`sum(x * w - mean * w)` over 768 elements, 1,000 deviations from zero, the error was twice eager's,
of a layer norm's gradients, which subtract the mean first, what it was without this. A part that
is the same in all of a row and waits is left, such as a mean that is subtracted before a sum: there
the difference is exact. Where a factor that was drawn out is infinite, and terms have both signs,
the sum is infinite instead of NaN.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from thunder_fuser.analysis.reductions import is_long
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.factor_sums import OfRows, exact_step, is_sum, of_rows, summed_alike


def sum_apart(fusion: Fusion) -> Fusion:
    """`fusion` with such sums in parts."""
    sums = {tv for tv in fusion.tensors if is_sum(tv) and is_long(tv)}
    waiting = {tv for tv in sums if any(_is_alike(t, tv) for t in _before(tv) if t in sums)}
    known: dict[object, OfRows] = {}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if tv not in waiting:
            return None
        (terms,) = inputs
        assert isinstance(terms, TensorView)
        return _Parts(tv, of_rows(tv, known), _late(tv, terms)).sum(terms)

    return rewrite(fusion, rule) if waiting else fusion


def _before(tv: TensorView) -> Iterator[TensorView]:
    """What the terms of `tv` are made of."""
    assert tv.definition is not None
    return topological(tv.definition.tensors)


def _is_alike(reduction: TensorView, tv: TensorView) -> bool:
    """True for a long reduction of the same rows as `tv`: of such a plane, over its dims."""
    made, other = reduction.definition, tv.definition
    if made is None or other is None or made.op.family is not Family.REDUCTION:
        return False
    is_same = made.tensors[0].shape == other.tensors[0].shape
    return is_same and made.attr("dims") == other.attr("dims") and is_long(reduction)


def _late(tv: TensorView, terms: TensorView) -> set[TensorView]:
    """What of the terms of `tv` waits for a reduction of the same rows."""
    late = set[TensorView]()
    for t in topological([terms]):
        made = t.definition
        if made is not None and (_is_alike(t, tv) or not late.isdisjoint(made.tensors)):
            late.add(t)
    return late


@dataclass
class _Parts:
    """The parts of the terms of the sum `tv`, some of which are `late`."""

    tv: TensorView
    rows: OfRows
    late: set[TensorView]
    found: dict[TensorView, TensorView | None] = field(default_factory=dict)

    def sum(self, terms: Value) -> TensorView | None:
        """Of such terms, no part of which waits for a sum of the same rows; None where one does,
        and of a number or a 0-d tensor."""
        if not (isinstance(terms, TensorView) and self.rows.are_terms(terms)):
            return None
        if terms not in self.found:
            is_late = terms in self.late
            made = self._taken_apart(terms) if is_late else summed_alike(self.tv, terms)
            self.found[terms] = made
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
