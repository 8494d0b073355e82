"""How many elements of memory a set of results reads, each counted once.

    T1[i8] = slice(T0[i16], 4:12)      8 of the 16 elements of T0
    T2 = T1 + flip(T1)                 the same 8

Results are walked back to the leaves as digit forms in their own axes; where a window (a pad, a
piece of a cat) lets only part of an axis through, the axis is cut down to it. What a leaf's offsets
then are is a box of strided digits per path, and the boxes are united. Digits of one axis that are
not independent, and windows over several axes, make the count too large, never larger than the
leaf.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeAlias

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.digits import Form, atom, substitute
from thunder_fuser.analysis.index_map import Edge, Window, edges_from
from thunder_fuser.analysis.layout import Layout, offset_of
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView

MAX_INDICES = 10_000  # met on the way; beyond that a leaf counts as read whole
MAX_OFFSETS = 1 << 20  # listed one by one, where boxes do not line up


def elements_read(
    results: Iterable[TensorView],
    leaves: frozenset[TensorView],
    layouts: Mapping[TensorView, Layout],
) -> dict[TensorView, int]:
    """Of each leaf that the results need, in order of use, an expanded axis as one element."""
    walk = _Walk(leaves)
    walk.back_from(results)
    found = {}
    for leaf, indices in walk.read.items():
        whole = layouts[leaf].distinct
        if not walk.is_cut_short:
            offsets = {offset_of(layouts[leaf], index) for index in indices}
            whole = min(whole, _union(set(map(_box, offsets))), sum(map(_points, offsets)))
        found[leaf] = whole
    return found


def _points(offset: Form) -> int:
    """Values of the axes that an offset depends on: no more elements than that are read."""
    return prod(base.size for base in offset.bases)


@dataclass
class _Walk:
    """The indices at which each leaf is read."""

    leaves: frozenset[TensorView]
    read: dict[TensorView, dict[Index, None]] = field(default_factory=dict)
    is_cut_short: bool = False
    _narrowed: dict[tuple[IterDomain, int, int], Form] = field(default_factory=dict)

    def back_from(self, results: Iterable[TensorView]) -> None:
        first = [(tv, tuple(map(atom, tv.logical))) for tv in results]
        waiting, met = first[::-1], set(first)
        while waiting:
            tv, index = waiting.pop()
            if tv in self.leaves:
                self.read.setdefault(tv, {})[index] = None
                continue
            if len(met) > MAX_INDICES:
                self.is_cut_short = True
            for source in reversed(self._sources(tv, index)):
                if source not in met and not (self.is_cut_short and source[0] in self.read):
                    met.add(source)
                    waiting.append(source)

    def _sources(self, tv: TensorView, index: Index) -> list[Element]:
        if tv.definition is None or 0 in tv.shape:
            return []
        values = {a: atom(a) for a in tv.domain.logical if a.is_reduction}
        values |= dict(zip(tv.logical, index, strict=True))
        found = []
        for edge in _read(tv, edges_from(tv, values)):
            inside = self._inside(edge.index, edge.windows)
            if inside is not None:
                found.append((edge.producer, inside))
        return found

    def _inside(self, index: Index, windows: Iterable[Window]) -> Index | None:
        """The index over the part of its axes that the windows let through; None for no part."""
        seen: dict[IterDomain, Form] = {}
        for window in windows:
            form = substitute(window.form, seen)
            low, high = form.bounds
            if high < 0 or low >= window.extent:
                return None
            base = _only_axis(form)
            if base is not None and (low < 0 or high >= window.extent):
                first = max(0, -form.constant)
                last = min(high, window.extent - 1) - form.constant
                part = self._part(base, first, last + 1 - first)
                seen = {a: substitute(f, {base: part}) for a, f in seen.items()}
                seen.setdefault(base, part)
        return tuple(substitute(form, seen) for form in index)

    def _part(self, whole: IterDomain, first: int, extent: int) -> Form:
        """`extent` values of an axis from `first`, as an axis of its own: always the same one."""
        key = (whole, first, extent)
        if key not in self._narrowed:
            made = atom(axis(extent))
            self._narrowed[key] = Form(first, made.terms)
        return self._narrowed[key]


def _read(tv: TensorView, edges: Sequence[Edge]) -> Sequence[Edge]:
    """Of pieces of groups and the sum of these, each term is read by one: the sum is charged."""
    return edges[1:] if tv.expr.op.name == "group_pieces" else edges


def _only_axis(form: Form) -> IterDomain | None:
    """The axis that the form is a shift of, if it is one."""
    if len(form.terms) != 1:
        return None
    ((weight, digit),) = form.terms
    is_axis = weight == 1 and digit.is_whole and isinstance(digit.base, IterDomain)
    return digit.base if is_axis else None  # type: ignore[return-value]


Box: TypeAlias = "tuple[int, tuple[tuple[int, int], ...]]"
# The least offset, and stride and extent of each digit by falling stride.


def _box(offset: Form) -> Box:
    digits = sorted(((abs(w), digit.extent) for w, digit in offset.terms), reverse=True)
    return offset.bounds[0], tuple(digits)


def _union(boxes: set[Box]) -> int:
    """Offsets in any of the boxes."""
    common = _outermost_of_all(boxes)
    if common is not None:
        return common[1] * _union({(first, digits[1:]) for first, digits in boxes})
    if len(boxes) == 1 and _is_regular(*boxes):
        return _volume(*boxes)
    if sum(map(_volume, boxes)) > MAX_OFFSETS:
        return sum(map(_volume, boxes))
    return len({offset for box in boxes for offset in _offsets(box)})


def _outermost_of_all(boxes: set[Box]) -> tuple[int, int] | None:
    """The digit that all boxes have outermost, where what is below it never reaches its stride."""
    outermost = {digits[0] if digits else None for _, digits in boxes}
    if len(outermost) != 1 or None in outermost:
        return None
    (digit,) = outermost
    assert digit is not None
    low = min(first for first, _ in boxes)
    high = max(first + _reach(digits[1:]) for first, digits in boxes)
    return digit if high - low < digit[0] else None


def _is_regular(box: Box) -> bool:
    """Whether no two indices have the same offset, as the strides alone tell."""
    _, digits = box
    return all(_reach(digits[k + 1 :]) < stride for k, (stride, _) in enumerate(digits))


def _reach(digits: Iterable[tuple[int, int]]) -> int:
    return sum(stride * (extent - 1) for stride, extent in digits)


def _volume(box: Box) -> int:
    return prod(extent for _, extent in box[1])


def _offsets(box: Box) -> set[int]:
    first, digits = box
    found = {first}
    for stride, extent in digits:
        found = {offset + stride * k for offset in found for k in range(extent)}
    return found
