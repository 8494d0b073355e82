"""What several phases of a row compute from memory alone, at a cost, and can compute once.

    max(f(x)); sum(exp(f(x) - max)); exp(f(x) - max) / sum      with f = 30 * tanh(x / 30)

The first phase leaves f(x) in registers, beside the row or in its place. A value that no reduction
of the row leads to is held where what is computed behind the reductions begins. What costs no more
than a conversion or two is computed again, and what reductions lead to as well where whole rows are
stored, whose traffic takes longer. Beside sums down the columns a thread holds that of one vector.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from thunder_fuser.analysis.access import Demand
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.elements import Key
from thunder_fuser.ops import Cost


def computed_again(
    scopes: Sequence[tuple[Sequence[Key], Demand]],
    reductions: Set[TensorView],
    behind: Set[TensorView] = frozenset(),
) -> tuple[Key, ...]:
    """The costly elements that several scopes, each with its results, compute from memory alone,
    and those `behind` a reduction; sources first. None where one is read under a condition."""
    if any(needs.places or [*needs.windows()] for _, needs in scopes):
        return ()
    computed = Counter(key for _, needs in scopes for key in needs.elements)
    again = {key for key, times in computed.items() if times > 1}
    borders = {key for key in computed if key[0] in behind}
    for results, needs in scopes:
        borders |= _borders(results, needs, reductions, again)
    indices = Counter(tv for tv, _ in computed)
    return tuple(key for key in computed if key in again & borders and indices[key[0]] == 1)


def _borders(
    results: Sequence[Key], needs: Demand, reductions: Set[TensorView], again: Set[Key]
) -> set[Key]:
    """The costly elements that no reduction leads to, and that are results or read by others than
    such elements that are computed `again`."""
    costly: set[Key] = set()
    free: set[Key] = set(needs.leaves) - {key for key in needs.leaves if key[0] in reductions}
    found: set[Key] = set()
    for key, element in needs.elements.items():
        sources = {(s.producer, s.index) for s in element.sources}
        if sources <= free:
            free.add(key)
            if is_costly(key[0]) or not sources.isdisjoint(costly):
                costly.add(key)
        if key not in free & again:
            found |= sources & costly
    return found | (set(results) & costly)


def is_costly(tv: TensorView) -> bool:
    """True for what a function makes that takes several instructions."""
    return tv.definition is not None and tv.definition.op.cost is Cost.EXPENSIVE
