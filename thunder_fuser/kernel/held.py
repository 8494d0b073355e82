"""What several phases of a row compute from memory alone, at a cost, and can compute once.

    max(f(x)); sum(exp(f(x) - max)); exp(f(x) - max) / sum      with f = 30 * tanh(x / 30)

The first phase leaves f(x) in registers, beside the row or in its place. A value that no reduction
of the row leads to is held where what is computed behind the reductions begins. What costs no more
than a conversion or two is computed again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence, Set

from thunder_fuser.analysis.access import Demand, Element
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.elements import Key
from thunder_fuser.ops import Cost


def computed_again(
    scopes: Sequence[tuple[Sequence[Key], Demand]], reductions: Set[TensorView]
) -> tuple[Key, ...]:
    """The costly elements that several scopes, each with its results, compute from memory alone;
    none where an element is read under a condition."""
    if any(needs.places or [*needs.windows()] for _, needs in scopes):
        return ()
    borders = [_borders(results, needs, reductions) for results, needs in scopes]
    found = Counter(key for keys in borders for key in keys)
    indices = Counter(tv for tv, _ in {key for _, needs in scopes for key in needs.elements})
    return tuple(key for key, times in found.items() if times > 1 and indices[key[0]] == 1)


def _borders(results: Sequence[Key], needs: Demand, reductions: Set[TensorView]) -> set[Key]:
    """The costly elements that no reduction leads to, and that others read or that are results."""
    costly: set[Key] = set()
    free: set[Key] = set(needs.leaves) - {key for key in needs.leaves if key[0] in reductions}
    found: set[Key] = set()
    for key, element in needs.elements.items():
        sources = {(s.producer, s.index) for s in element.sources}
        if sources <= free:
            free.add(key)
            if _is_costly(element) or not sources.isdisjoint(costly):
                costly.add(key)
        else:
            found |= sources & costly
    return found | (set(results) & costly)


def _is_costly(element: Element) -> bool:
    expr = element.tensor.definition
    return expr is not None and expr.op.cost is Cost.EXPENSIVE
