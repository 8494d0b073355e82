"""What a block that keeps columns computes once, though several threads or phases need it.

    T9[n, r, c] = exp(T0[n, r, c] - T3[n, c]) * (T1[n, r] / T2[n, r])

*Shares* of rows, T1 / T2, before the phases, for all rows of each sample of which the block has
columns: they come to shared memory, where each thread finds those of its rows. And what the first
phase that makes it *leaves* in registers for others, exp(T0 - T3), where nothing that a phase comes
to leads to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import Digit
from thunder_fuser.analysis.held import computed_again, is_costly, is_mask
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.images import is_as_its_sources
from thunder_fuser.schedule.needs import needs_of
from thunder_fuser.segment.segment import Segment

MOST_ROWS = 1024  # of such values in shared memory


@dataclass(frozen=True)
class RowShares:
    """Such `values`, which so many neighbouring `vectors` of columns share."""

    values: tuple[Element, ...]
    vectors: int

    @property
    def tensors(self) -> frozenset[TensorView]:
        return frozenset(tv for tv, _ in self.values)

    def samples(self, across: int) -> int:
        """Of which a block of so many vectors has columns, at most."""
        if across % self.vectors == 0 or self.vectors % across == 0:
            return max(across // self.vectors, 1)
        return (across - 2) // self.vectors + 2


NONE = RowShares((), 1)


def row_shares(
    segment: Segment, own: Mapping[TensorView, Index], results: Sequence[Element], axes: ColumnAxes
) -> RowShares:
    """Of what `results` need down to their `own` reductions, of tensors that are read at one
    index."""
    needs = needs_of(segment, own, results)
    indices = Counter(tv for tv, _ in (*needs.elements, *needs.leaves))
    rows: dict[Element, int] = {}  # and how many vectors share each
    costly: set[Element] = set()
    for tv, index in needs.leaves:
        shared = None if tv in segment.long else _vectors(segment, tv, index, axes)
        if shared is not None:
            rows[tv, index] = shared
    read: dict[Element, None] = {}
    for key, element in needs.elements.items():
        sources = [(source.producer, source.index) for source in element.sources]
        if sources and is_as_its_sources(element) and all(s in rows for s in sources):
            rows[key] = min(rows[s] for s in sources)
            if takes_several(key[0]) or not costly.isdisjoint(sources):
                costly.add(key)
        else:
            read |= dict.fromkeys(s for s in sources if s in costly and indices[s[0]] == 1)
    found = tuple(key for key in read if rows[key] < axes.vector.size or _is_of(key, axes))
    shared = min((rows[key] for key in found), default=1)
    is_even = all(rows[key] % shared == 0 for key in found)
    return RowShares(found, shared) if is_even and axes.row.size <= MOST_ROWS else NONE


def takes_several(tv: TensorView) -> bool:
    """True for a function or a quotient."""
    return tv.definition is not None and (is_costly(tv) or bool(tv.definition.op.fast))


def _is_of(key: Element, axes: ColumnAxes) -> bool:
    return any(axes.row in form.bases for form in key[1])


def _vectors(segment: Segment, tv: TensorView, index: Index, axes: ColumnAxes) -> int | None:
    """How many neighbouring vectors of columns read the same of memory in a row; None for what
    lanes have an element each of, or that lies at a loaded index."""
    offset, strides = offset_of(segment.layouts[tv], index), [axes.vector.size]
    for _, digit in offset.terms:
        if not isinstance(digit, Digit) or digit.base not in (axes.row, axes.vector):
            return None
        if digit.base is axes.vector:
            strides.append(digit.stride)
    least = min(strides)
    is_even = all(stride % least == 0 for stride in strides)
    return least if is_even and least > 1 else None


def left_values(
    segment: Segment,
    scopes: Sequence[Sequence[Element]],
    own: Mapping[TensorView, Index],
    shares: RowShares,
    axes: ColumnAxes,
) -> tuple[tuple[Element, ...], ...]:
    """What several `scopes` compute alike of each element at a cost, which no reduction of their
    `own` leads to: as groups of elements that are equal."""
    known = {*own, *shares.tensors}
    every = [(results, needs_of(segment, known, results)) for results in scopes]
    return tuple(
        alike
        for alike in computed_again(every, set(own), masks_apart=True)
        if _is_of(alike[0], axes) and not is_mask(alike[0][0])
    )
