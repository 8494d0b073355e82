"""What a phase sums of the elements that equal an extremum alone.

    T16_part max= T15_0                     if (!(T16_part < T16_row)) {
    T16_row = max(T16_part)            =>     T19_0: bool = eq(T15_1, T16_row)
    T19_0: bool = eq(T15_1, T16_row)          T21_part sum= cast(T19_0)
    T21_part sum= cast(T19_0)               }

The gradient of the largest element of a row counts how many equal it, and what follows sums what is
multiplied by that. A warp whose own largest is less than its row's has none, and leaves the phase
out: of rows that many warps have, all warps but one or two do. So do they leave out behind the
phases what they would add of it to sums down the columns, and to what they store.

All that is left out is 0. An infinity or a NaN would not be, so the others' factors are what their
sizes are computed of: if the largest size is less than another's, all of these are finite. Behind
the phases, but not with `strict`, what a row has one of is so too, such as its gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property

from thunder_fuser.analysis.access import Demand, Element
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import Reduce, ReducePhase
from thunder_fuser.ops import Family
from thunder_fuser.schedule.phases import Phase

_HAND_ON = ("abs", "neg", "cast", "mul", "add", "sub")  # what is infinite or a NaN, of any operand


def of_chosen(
    lowered: Sequence[ReducePhase],
    planned: Sequence[Phase],
    needs: Callable[[Sequence[Element]], Demand],
) -> list[ReducePhase]:
    """The phases of rows that several warps have, with what chooses the elements that they sum."""
    extrema, terms, made = dict[Element, Reduce](), dict[Element, Element](), list[ReducePhase]()
    for phase, plan in zip(lowered, planned, strict=True):
        if phase.scans or plan.met is not None:
            made.append(phase)
            continue
        is_sum_alone = not (phase.held or phase.pairs or phase.risen or phase.scope.stores)
        found = _choosing_all(needs(plan.terms), plan.terms, terms) if is_sum_alone else ()
        made.append(replace(phase, chosen=tuple(extrema[key] for key in found)))
        for key, term, reduction in zip(plan.reductions, plan.terms, phase.reductions, strict=True):
            if reduction.op.in_pairs:
                extrema[key], terms[key] = reduction, term
    return made


def nothing_chosen(
    lowered: Sequence[ReducePhase],
    planned: Sequence[Phase],
    needs: Demand,
    along: Set[IterDomain] | None,
) -> tuple[tuple[Reduce, ...], set[TensorView]]:
    """The extrema that choose elements behind the phases, and of what these need the tensors that
    are 0 where a warp has none. What a row has one of, that nothing `along` it leads to, counts as
    finite; None where it does not."""
    chosen, zeros = list[Reduce](), set[Element]()
    of_row = frozenset[Element]() if along is None else _of_row(needs, along)
    for phase, plan in zip(lowered, planned, strict=True):
        if phase.scans or plan.met is not None:
            continue
        for key, term, reduction in zip(plan.reductions, plan.terms, phase.reductions, strict=True):
            found = _Chosen(needs, key, term, of_row).zeros if reduction.op.in_pairs else ()
            chosen += [reduction] if found else []
            zeros |= set(found)
    others = {tv for tv, index in needs.elements if (tv, index) not in zeros}
    return tuple(chosen), {tv for tv, _ in zeros} - others


def _of_row(needs: Demand, along: Set[IterDomain]) -> frozenset[Element]:
    """What a row has one of."""
    found = set[Element]()
    for key, made in needs.elements.items():
        sources = {(s.producer, s.index) for s in made.sources}
        found |= {s for s in sources if _is_beside(s, along)}
        if sources and sources <= found:
            found.add(key)
    return frozenset(found)


def _is_beside(element: Element, along: Set[IterDomain]) -> bool:
    return all(along.isdisjoint(form.bases) for form in element[1])


def _choosing_all(
    needs: Demand, terms: Sequence[Element], extrema: Mapping[Element, Element]
) -> tuple[Element, ...]:
    """Of the `extrema`, each with its own terms, those without which all of these `terms` are 0."""
    every = [_Chosen(needs, extremum, own) for extremum, own in extrema.items()]
    found = [next((e.extremum for e in every if e.has_all(term)), None) for term in terms]
    return () if None in found else tuple(key for key in dict.fromkeys(found) if key is not None)


@dataclass(frozen=True)
class _Chosen:
    """The elements whose `own` terms equal an extremum."""

    needs: Demand
    extremum: Element
    own: Element
    of_row: frozenset[Element] = frozenset()  # which counts as finite

    def has_all(self, term: Element) -> bool:
        """True for a term that is 0 in all elements of a warp that has none of these."""
        return self._viewed(term) in self.zeros

    @cached_property
    def zeros(self) -> set[Element]:
        """All that is so."""
        found = set[Element]()
        for key in self.needs.elements:  # each after those that it needs
            if self._viewed(key) in found or self._is_zero(key, found):
                found.add(key)
        return found

    def _is_zero(self, key: Element, zeros: Set[Element]) -> bool:
        match self._made(key):
            case "eq", (a, b):
                return {a, b} == {self._viewed(self.extremum), self._viewed(self.own)}
            case (("cast" | "neg"), (source,)):
                return source in zeros
            case "mul", (a, b):
                both = (a, b), (b, a)
                return any(zero in zeros and self._is_finite(other) for zero, other in both)
        return False

    def _is_finite(self, factor: Element) -> bool:
        """True for a factor that is so in all elements of such a warp."""
        if factor in self.of_row:
            return True
        match self._made(factor):
            case "sign", _:
                return True
            case "cast", (source,) if source[0].dtype is DataType.Bool:
                return True
        return factor in self._of_sizes

    @cached_property
    def _of_sizes(self) -> set[Element]:
        """What is finite where the largest size is less than another: what makes it."""
        is_size = self.extremum[0].is_of("max") and self._made(self.own)[0] == "abs"
        todo, found = [self._viewed(self.own)] if is_size else [], set[Element]()
        while todo:
            found.add(key := todo.pop())
            name, sources = self._made(key)
            if name in _HAND_ON and key[0].dtype.is_floating:
                todo += [source for source in sources if source not in found]
        return found

    def _made(self, key: Element) -> tuple[str, tuple[Element, ...]]:
        """The op that makes an element or what it is a view of, and the elements that it takes."""
        if (element := self.needs.elements.get(self._viewed(key))) is None:
            return "", ()
        taken = ((s.producer, s.index) for s in element.sources)
        return element.tensor.expr.op.name, tuple(map(self._viewed, taken))

    def _viewed(self, key: Element) -> Element:
        """The element that one is a view of."""
        while (element := self.needs.elements.get(key)) is not None and (
            element.tensor.expr.op.family is Family.VIEW
        ):
            key = element.sources[0].producer, element.sources[0].index
        return key
