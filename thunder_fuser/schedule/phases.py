"""The levels of reductions that a kernel combines one after another.

mean = sum(x) / n;  var = sum((x - mean)^2) / n        phase 0: the first sum; phase 1: the other

Rows of a block that meet in a reduction do so in a phase of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.access import Element, demand
from thunder_fuser.analysis.reductions import met_rows
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.segment import Segment


@dataclass(frozen=True, eq=False)
class Phase:
    """Reductions and scans of one level, each with its result's index and its term's index: one
    result per row or column, of a scan one per element."""

    reductions: tuple[Element, ...]
    terms: tuple[Element, ...]

    @property
    def met(self) -> int | None:
        """How many rows of a block meet in it, if it is of such reductions."""
        return met_rows(self.reductions[0][0])


def phases_of(
    segment: Segment, reductions: Sequence[Element], terms: Sequence[Element]
) -> tuple[Phase, ...]:
    """Reductions, in topological order, by level: a level needs the results of the ones before."""
    level: dict[TensorView, int] = {}
    leaves = segment.leaves.union(segment.long, (tv for tv, _ in reductions))
    for (tv, _), (term, index) in zip(reductions, terms, strict=True):
        needed = [p for p, _ in demand([(term, index)], leaves).leaves if p in level]
        if term in level:
            needed.append(term)
        level[tv] = 1 + max((level[p] for p in needed), default=-1)
    phases = []
    for depth in range(max(level.values(), default=-1) + 1):
        at_once = [k for k, (tv, _) in enumerate(reductions) if level[tv] == depth]
        for count in sorted({met_rows(reductions[k][0]) or 1 for k in at_once}):
            members = [k for k in at_once if (met_rows(reductions[k][0]) or 1) == count]
            phases.append(
                Phase(tuple(reductions[k] for k in members), tuple(terms[k] for k in members))
            )
    return tuple(phases)
