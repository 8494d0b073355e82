"""What a phase sums of the elements that equal an extremum alone.

    T16_part max= T15_0                     if (T16_part == T16_row) {
    T16_row = max(T16_part)            =>     T19_0: bool = eq(T15_1, T16_row)
    T19_0: bool = eq(T15_1, T16_row)          T21_part sum= cast(T19_0)
    T21_part sum= cast(T19_0)               }

The gradient of the largest element of a row counts how many equal it, and what follows sums what is
multiplied by that. A warp whose own largest is not that of its row has none, and leaves the phase
out: of rows that many warps have, all warps but one or two do. An infinity or a NaN that is
multiplied by 0 in other elements is not summed then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from thunder_fuser.analysis.access import Demand
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.elements import Key
from thunder_fuser.kernel.row_ir import Reduce, ReducePhase
from thunder_fuser.ops import Family
from thunder_fuser.schedule.phases import Phase


def of_chosen(
    lowered: Sequence[ReducePhase],
    planned: Sequence[Phase],
    needs: Callable[[Sequence[Key]], Demand],
) -> list[ReducePhase]:
    """The phases of rows that several warps have, with what chooses the elements that they sum."""
    extrema, terms, made = dict[Key, Reduce](), dict[Key, Key](), list[ReducePhase]()
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


def _choosing_all(
    needs: Demand, terms: Sequence[Key], extrema: Mapping[Key, Key]
) -> tuple[Key, ...]:
    """Of the `extrema`, each with its own terms, those without which all of these `terms` are 0."""
    found = [_choosing(needs, term, extrema) for term in terms]
    return tuple(dict.fromkeys(e[0] for e in found)) if all(found) else ()


def _choosing(needs: Demand, term: Key, extrema: Mapping[Key, Key]) -> list[Key]:
    """The extrema that an element equals or is multiplied by 0."""
    key = _viewed(needs, term)
    element = needs.elements.get(key)
    if element is None or element.tensor.definition is None:
        return []
    sources = [(s.producer, s.index) for s in element.sources]
    match element.tensor.definition.op.name:
        case "eq" if len(sources) == 2:
            both = {_viewed(needs, source) for source in sources}
            return [extremum for extremum, own in extrema.items() if {extremum, own} == both]
        case "cast" | "neg" | "mul":
            return [e for source in sources for e in _choosing(needs, source, extrema)]
    return []


def _viewed(needs: Demand, key: Key) -> Key:
    """The element that one is a view of."""
    while (element := needs.elements.get(key)) is not None and _is_view(element.tensor):
        key = element.sources[0].producer, element.sources[0].index
    return key


def _is_view(tv: TensorView) -> bool:
    return tv.definition is not None and tv.definition.op.family is Family.VIEW
