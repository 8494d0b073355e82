"""How often an index that each row has one of is a column: a sum of as many truths down it.

    T2[c] sums cast(where(c == T0[r], 1, 0)) over r        T0[r] is counted at c

The experts that tokens are sent to are counted so, by a one-hot of each token's largest score. Of
all columns of a row, one gets 1.
"""

from __future__ import annotations

from collections.abc import Container, Set
from dataclasses import dataclass

from thunder_fuser.analysis.access import Demand, Element, Source, demand
from thunder_fuser.analysis.digits import Form, atom
from thunder_fuser.analysis.reductions import is_long
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.fusion import topological
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family

_BEHIND = ("cast", "where")  # what makes numbers of truths


@dataclass(frozen=True)
class Counted:
    """The `value` of a row, which adds 1 where it is the `place` of a column."""

    value: Element
    place: Form


def counted(term: Element, leaves: Container[TensorView], along: Set[IterDomain]) -> Counted | None:
    """What the sum of such terms counts, of rows `along` those axes; None for others."""
    return _Terms(demand([term], leaves), along).counted(term)


def is_counted(tv: TensorView) -> bool:
    """True for such a sum down the columns of a plane."""
    if not (tv.is_of("sum") and is_long(tv) and tv.ndim == 1):
        return False
    (term,) = tv.expr.tensors
    axes = [axis(extent) for extent in term.shape]
    leaves = {t for t in topological([term]) if t.definition is None or is_long(t)}
    return counted((term, tuple(map(atom, axes))), leaves, {axes[-1]}) is not None


@dataclass(frozen=True)
class _Terms:
    needs: Demand
    along: Set[IterDomain]

    def counted(self, term: Element) -> Counted | None:
        key = self._viewed(term)
        while key in self.needs.elements and (made := self.needs.elements[key].tensor.expr):
            sources = self.needs.elements[key].sources
            if made.op.name == "eq":
                return self._of_equals(sources)
            is_one = made.op.name != "where" or self._is_one_or_none(key)
            if made.op.name not in _BEHIND or not is_one or _is_windowed(sources):
                return None
            key = self._viewed((sources[0].producer, sources[0].index))
        return None

    def _of_equals(self, sources: tuple[Source, ...]) -> Counted | None:
        if len(sources) != 2 or _is_windowed(sources):
            return None
        first, second = (self._viewed((s.producer, s.index)) for s in sources)
        for place, value in ((first, second), (second, first)):
            is_of_row = all(self.along.isdisjoint(form.bases) for form in value[1])
            is_whole = value[0].dtype.is_integral  # a float between two columns equals neither
            if (form := self._place(place)) is not None and is_of_row and is_whole:
                return Counted(value, form)
        return None

    def _place(self, key: Element) -> Form | None:
        """The index of which an element is the number."""
        if key not in self.needs.elements:
            return None
        tv = key[0]
        is_index = tv.family is Family.IOTA and tv.dtype.is_integral
        start, step = tv.expr.inputs if is_index else (None, None)
        is_plain = is_index and _is(start, 0) and _is(step, 1)
        return key[1][0] if is_plain and not self.along.isdisjoint(key[1][0].bases) else None

    def _is_one_or_none(self, key: Element) -> bool:
        """True for a choice of 1 and 0."""
        _, one, none = key[0].expr.inputs
        sources = self.needs.elements[key].sources
        tensors = iter((s.producer, s.index) for s in sources[1:])
        found = [
            self._number(next(tensors)) if isinstance(v, TensorView) else v for v in (one, none)
        ]
        return _is(found[0], 1) and _is(found[1], 0)

    def _number(self, key: Element) -> Value | None:
        """The constant that an element is, None for others."""
        key = self._viewed(key)
        if key not in self.needs.elements:
            return None
        tv, sources = key[0], self.needs.elements[key].sources
        if tv.family is Family.FULL:
            return tv.expr.inputs[0]
        if tv.is_of("add") and len(sources) == 2:
            both = [self._number((s.producer, s.index)) for s in sources]
            others = [v for v in both if not _is(v, 0)]
            return (others or both)[0] if len(others) < 2 else None
        return None

    def _viewed(self, key: Element) -> Element:
        """The element that one is a view of."""
        while (element := self.needs.elements.get(key)) is not None and (
            element.tensor.expr.op.family is Family.VIEW and not _is_windowed(element.sources)
        ):
            key = element.sources[0].producer, element.sources[0].index
        return key


def _is_windowed(sources: tuple[Source, ...]) -> bool:
    return any(source.windows for source in sources)


def _is(value: Value | None, number: int) -> bool:
    return isinstance(value, Constant) and sc.is_constant(value, number)
