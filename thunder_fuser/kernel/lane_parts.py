"""Elements that lanes choose from several places: as many at once as always lie side by side.

reads at 500 + 8*vector + lane where that is < 1000, else at 8*vector + lane - 500, 8 lanes

The halves of a row of 1000 that a rotary embedding swaps meet inside a vector of 8, but no four
lanes that begin aligned read from both: two accesses of 8 bytes, not eight of 2.
"""

from __future__ import annotations

from dataclasses import replace
from math import gcd

from thunder_fuser.analysis.digits import ZERO, Form, add, atom, combine, substitute
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.ir.domain import IterDomain, split
from thunder_fuser.kernel.statements import Guarded, VectorAccess

PARTS = (8, 4, 2)  # elements


def in_parts(access: VectorAccess, lane: IterDomain, alignment: int) -> VectorAccess:
    """A load of an element for each lane, of memory that begins at a multiple of `alignment` bytes,
    in the widest parts of which all lanes have one choice, side by side and aligned."""
    room = gcd(access.length * access.dtype.itemsize, alignment, MAX_ALIGNMENT)
    for part in PARTS:
        width = part * access.dtype.itemsize
        fits = gcd(room, width) == width
        if fits and all(_has_parts(choice, lane, part) for choice in access.choices):
            return replace(access, access_bytes=width)
    return access


def _has_parts(choice: Guarded, lane: IterDomain, part: int) -> bool:
    """True where so many lanes read side by side and are tested alike."""
    tests = [guard for guard in choice.guards if lane in guard.form.bases]
    forms = (choice.offset, *(test.form for test in tests))
    ends_whole = all(gcd(test.extent, part) == part for test in tests)
    return ends_whole and all(_counts_up(form, lane, part) for form in forms)


def _counts_up(form: Form, lane: IterDomain, part: int) -> bool:
    """True for a form that is a multiple of `part` at the first of so many lanes, and then grows by
    one a lane."""
    outer, inner = split(lane, part)
    cut = substitute(form, {lane: combine(atom(outer), atom(inner), part)})
    start = substitute(cut, {inner: ZERO})
    steps = (weight for weight, _ in start.terms)
    return cut == add(start, atom(inner)) and gcd(part, start.constant, *steps) == part
