"""What several phases of a row compute from memory alone, at a cost, and can compute once.

    max(f(x)); sum(exp(f(x) - max)); exp(f(x) - max) / sum      with f = 30 * tanh(x / 30)

The first phase leaves f(x) in registers, beside the row or in its place. A value that no reduction
of the row leads to is held where what is computed behind the reductions begins. What costs no more
than a conversion or two is computed again, and what reductions lead to as well where whole rows are
stored, whose traffic takes longer. Beside sums down the columns a thread has few registers for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from itertools import chain

from thunder_fuser.analysis.access import Demand, Element, Source
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Cost, Family


def computed_again(
    scopes: Sequence[tuple[Sequence[Element], Demand]],
    reductions: Set[TensorView],
    behind: Set[TensorView] = frozenset(),
    *,
    masks_apart: bool = False,
) -> tuple[tuple[Element, ...], ...]:
    """The costly elements that several scopes, each with its results, compute from memory alone,
    and those `behind` a reduction; sources first, each with all that are made as it is. None where
    one is read under a condition. With `masks_apart` costly masks are found themselves, and what
    costs no more than to apply them is not."""
    if any(needs.places or [*needs.windows()] for _, needs in scopes):
        return ()
    first = _firsts([needs for _, needs in scopes])
    made = (dict.fromkeys(first[key] for key in needs.elements) for _, needs in scopes)
    computed = Counter(chain.from_iterable(made))
    again = {key for key, times in computed.items() if times > 1}
    borders = {key for key in computed if key[0] in behind}
    for results, needs in scopes:
        borders |= _borders(results, needs, reductions, again, first, masks_apart)
    indices = Counter(tv for tv, _ in first)
    alike: dict[Element, list[Element]] = {}
    for key, made_first in first.items():
        alike.setdefault(made_first, []).append(key)
    return tuple(
        tuple(alike[key])
        for key in computed
        if key in again & borders and all(indices[tv] == 1 for tv, _ in alike[key])
    )


def _firsts(scopes: Sequence[Demand]) -> dict[Element, Element]:
    """For each element the first that is made as it is, of the same: a gradient may have a function
    of its own beside the one that the trace had already."""
    known: dict[object, Element] = {}
    first: dict[Element, Element] = {}
    for key, element in ((k, e) for needs in scopes for k, e in needs.elements.items()):
        made = element.tensor.expr
        if made.op.family is not Family.POINTWISE:
            first[key] = key
            continue
        sources = iter([_first(s, first) for s in element.sources])
        inputs = tuple(next(sources) if isinstance(v, TensorView) else v for v in made.inputs)
        form = (made.op.name, made.attrs, element.tensor.dtype, element.index, inputs)
        first[key] = known.setdefault(form, key)
    return first


def _first(source: Source, first: Mapping[Element, Element]) -> Element:
    key = source.producer, source.index
    return first.get(key, key)


def _borders(
    results: Sequence[Element],
    needs: Demand,
    reductions: Set[TensorView],
    again: Set[Element],
    first: Mapping[Element, Element],
    masks_apart: bool,
) -> set[Element]:
    """The costly elements that no reduction leads to, and that are results or read by others than
    such elements that are computed `again`. Not what compares places alone, in an instruction or
    two: a bit takes three to be left and found again."""
    costly: set[Element] = set()
    masks: set[Element] = set()
    places: set[Element] = set()
    free: set[Element] = set(needs.leaves) - {key for key in needs.leaves if key[0] in reductions}
    found: set[Element] = set()
    for key, element in needs.elements.items():
        own, sources = first[key], {_first(s, first) for s in element.sources}
        if sources <= free:
            free.add(own)
            if is_costly(key[0]) or _is_place(key[0]) or not sources.isdisjoint(costly):
                (masks if masks_apart and is_mask(key[0]) else costly).add(own)
            if _is_place(key[0]) or (sources and sources <= places):
                places.add(own)
        if own not in free & again:
            found |= sources & costly
    found |= masks | ({first.get(key, key) for key in results} & costly)
    return {key for key in found if not (is_mask(key[0]) and key in places)}


def is_mask(tv: TensorView) -> bool:
    """True for what a thread holds in a bit an element."""
    return tv.dtype is DataType.Bool


def is_costly(tv: TensorView) -> bool:
    """True for what a function makes that takes several instructions."""
    return tv.definition is not None and tv.definition.op.cost is Cost.EXPENSIVE


def _is_place(tv: TensorView) -> bool:
    """True for the index of an element, which is computed to be compared or multiplied."""
    return tv.definition is not None and tv.definition.op.family is Family.IOTA
