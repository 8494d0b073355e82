"""Vectors with single elements beside them, for lanes that read what lies next to theirs.

    T0_0: f32 = T0[8*i0 + lane]             v0 = load T0[8*i0], 8 x bf16, and behind it T0[8*i0 + 8]
    T0_1: f32 = T0[8*i0 + lane + 1]    =>   T0_0: f32 = v0[1*lane + 0]
                                            T0_1: f32 = v0[1*lane + 1]

A vector that is one element off is aligned to nothing, so its lanes would be loaded one by one: all
but one of them are in the aligned vector too. What lanes compute of the same two elements is then
computed of the same registers, and the compiler does so once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from thunder_fuser.analysis.digits import Form, shift, substitute
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.statements import Guarded

REACH = 2  # elements on either side: each is a load, and what it saves are those of all lanes

Windows: TypeAlias = tuple[Window, ...]


@dataclass(frozen=True)
class Split:
    """An offset as `base + weight * lane + constant`."""

    base: Form
    weight: int
    constant: int


@dataclass(frozen=True)
class Near:
    """A vector at an offset, under guards that all lanes have in common unless its elements are
    loaded one by one, and those beside it. `places` are the offsets that lanes read, and where lane
    0 has its element."""

    tv: TensorView
    offset: Form
    guards: Windows
    before: tuple[Guarded, ...]
    behind: tuple[Guarded, ...]
    places: Mapping[Form, int]
    is_single: bool


@dataclass(frozen=True)
class _Family:
    """Requests of a tensor that differ by a constant, under the same guards but for those that
    differ from lane to lane: by the constant, the offset and these."""

    tv: TensorView
    base: Form
    guards: Windows
    members: dict[int, tuple[Form, Windows]]

    def at(self, constant: int) -> Form:
        """The offset of the first element of a vector."""
        return shift(self.base, constant)


def near_vectors(
    requests: Iterable[tuple[TensorView, Form, Windows]],
    lane: IterDomain,
    split: Callable[[Form], Split | None],
    width: Callable[[TensorView, Form, bool], int],
) -> Iterator[Near]:
    """Of what lanes request, vectors that some of them miss by few elements. `width` tells the
    bytes of an access to a vector at an offset, which is requested or not; 0 if none may be."""
    for family in _families(requests, lane, split):
        left = dict(family.members)
        aligned = [(start, False) for start in _starts(family, width)]
        for start, is_single in (*aligned, *((start, True) for start in sorted(left))):
            found = _near(family, start, left, lane, is_single)
            if found is not None:
                yield found
                left = {k: v for k, v in left.items() if v[0] not in found.places}


def _families(
    requests: Iterable[tuple[TensorView, Form, Windows]],
    lane: IterDomain,
    split: Callable[[Form], Split | None],
) -> Iterable[_Family]:
    found: dict[tuple[TensorView, Form, Windows], _Family] = {}
    for tv, offset, guards in requests:
        parts = split(offset)
        if parts is not None and parts.weight == 1:
            own = tuple(g for g in guards if lane in g.form.bases)
            common = tuple(g for g in guards if g not in own)
            key = tv, parts.base, common
            family = found.setdefault(key, _Family(*key, {}))
            family.members[parts.constant] = offset, own
    return found.values()


def _starts(family: _Family, width: Callable[[TensorView, Form, bool], int]) -> list[int]:
    """Where vectors begin that can be loaded: first those that are requested, the widest first."""
    steps = range(-REACH, REACH + 1)
    inside = {c for c, (_, own) in family.members.items() if not own}
    near = dict.fromkeys(c + d for c in family.members for d in steps)
    widths = {c: width(family.tv, family.at(c), c in inside) for c in near}
    found = (c for c in near if widths[c] > family.tv.dtype.itemsize)
    return sorted(found, key=lambda c: (c not in inside, -widths[c], c))


def _near(
    family: _Family,
    start: int,
    left: Mapping[int, tuple[Form, Windows]],
    lane: IterDomain,
    is_single: bool,
) -> Near | None:
    """The vector at `start` with what is `left` around it. None where that are less than two. Of
    one whose elements are loaded one by one, each has one guard for all lanes that read it."""
    if is_single and start not in left:
        return None
    alone = _seen_from(0, left[start][1], lane) if is_single else ()
    if alone is None:
        return None
    places, beside = dict[Form, int](), dict[int, Windows]()
    for constant, (offset, own) in left.items():
        move = constant - start
        is_near = abs(move) <= min(REACH, lane.size - 1)
        if is_near and (not is_single or _seen_from(move, own, lane) == alone):
            merged = _merged(beside, _outside(move, own, lane))
            if merged is not None:
                beside, places[offset] = merged, move
    if len(places) < 2:
        return None
    guards = {k: (*family.guards, *own) for k, own in sorted(beside.items())}
    vector = family.at(start)
    edges = {k: Guarded(shift(vector, k), tests) for k, tests in guards.items()}
    before = tuple(edge for k, edge in edges.items() if k < 0)
    behind = tuple(edge for k, edge in edges.items() if k > 0)
    moved = {offset: move + len(before) for offset, move in places.items()}
    inside = (*family.guards, *alone)
    return Near(family.tv, vector, inside, before, behind, moved, is_single)


def _seen_from(move: int, own: Windows, lane: IterDomain) -> Windows | None:
    """The guards of the lanes that read elements so far from their own, as those of the lanes whose
    own these are. None where lanes do not follow each other in them."""
    found = list[Window]()
    for window in own:
        if not any(digit.base is lane and digit.is_whole for _, digit in window.form.terms):
            return None
        step = next(w for w, digit in window.form.terms if digit.base is lane)
        found.append(replace(window, form=shift(window.form, -move * step)))
    return tuple(w for w in found if not _always(w))


def _outside(move: int, own: Windows, lane: IterDomain) -> dict[int, Windows]:
    """The elements beside the vector that lanes read so far from their own, and the guards under
    which they do."""
    places = range(lane.size, lane.size + move) if move > 0 else range(move, 0)
    found = {}
    for place in places:
        there = {lane: Form(place - move)}
        tests = (Window(substitute(g.form, there), g.extent) for g in own)
        found[place] = tuple(t for t in tests if not _always(t))
    return found


def _always(window: Window) -> bool:
    low, high = window.form.bounds
    return low >= 0 and high < window.extent


def _merged(known: Mapping[int, Windows], more: Mapping[int, Windows]) -> dict[int, Windows] | None:
    """Both; None where lanes have an element under different guards."""
    merged = dict(known)
    for place, tests in more.items():
        other = merged.setdefault(place, tests)
        if () in (other, tests):
            merged[place] = ()
        elif other != tests:
            return None
    return merged
