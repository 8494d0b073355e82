"""Where a short axis carries into a digit: lanes that come to the end of a row.

(8*v + lane) % 4097  =  (8*v) % 4097 + lane        while that is less than 4097,
(8*v + lane) / 4097  =  (8*v) / 4097               as long

(8*v + lane) % 4097  =  (8*v + 7) % 4097 - 7 + lane    behind the end, of 8 lanes
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from thunder_fuser.analysis.digits import (
    Digit,
    Form,
    Loaded,
    Opaque,
    add,
    atom,
    divmod_form,
    scale,
    shift,
)
from thunder_fuser.ir.domain import IterDomain


@dataclass(frozen=True)
class Carry:
    """Digits of `start + axis` count up along the axis, or stay, until that comes to a multiple of
    `modulus`."""

    start: Form
    modulus: int

    @property
    def place(self) -> Form:
        """How far from the last multiple the axis begins."""
        return divmod_form(self.start, self.modulus)[1]


def carry_of(forms: Iterable[Form], axis: IterDomain) -> Carry | None:
    """The carry that comes with all others along `axis`; None where there is no such, or no carry.
    What `straight` makes of the forms is right where the axis does not come to it."""
    digits = digits_in(forms)
    carries = {_carry(d, axis) for d in digits if _is_divided(d, axis)}
    known = [c for c in carries if c is not None]
    first = min(known, key=lambda c: c.modulus, default=None)
    if first is None or len(known) < len(carries):
        return None
    holds = all(c.start == first.start and c.modulus % first.modulus == 0 for c in known)
    return first if holds else None


def digits_in(forms: Iterable[Form]) -> Iterator[Digit]:
    """Every digit of some forms, and of those at which they find their loaded indices."""
    for form in forms:
        for _, digit in form.terms:
            yield digit
            if isinstance(digit.base, Loaded):
                yield from digits_in(digit.base.index)


def straight(form: Form, axis: IterDomain) -> Form:
    """`form` as it is without a carry. Its bounds may be wider than what it takes there."""
    return _counted(form, axis, 0)


def behind(form: Form, axis: IterDomain) -> Form:
    """`form` as it is behind the only carry, counted down from the last index of the axis."""
    return _counted(form, axis, axis.size - 1)


def _counted(form: Form, axis: IterDomain, index: int) -> Form:
    """`form` with digits that count from where they are at an index of the axis."""
    result = Form(form.constant)
    for weight, digit in form.terms:
        result = add(result, scale(_straight(digit, axis, index), weight))
    return result


def _is_divided(digit: Digit, axis: IterDomain) -> bool:
    return isinstance(digit.base, Opaque) and axis in digit.base.form.bases


def _carry(digit: Digit, axis: IterDomain) -> Carry | None:
    """None for a digit of anything but a sum of the axis and what is never negative."""
    if not isinstance(digit.base, Opaque):
        return None
    form, own = digit.base.form, (1, Digit(axis, 1, axis.size, axis.size))
    start = Form(form.constant, tuple(t for t in form.terms if t != own))
    if axis in start.bases or own not in form.terms or start.bounds[0] < 0:
        return None
    return Carry(start, digit.extent if digit.stride == 1 else digit.stride)


def _straight(digit: Digit, axis: IterDomain, index: int) -> Form:
    found = _carry(digit, axis)
    if found is None:
        return Form(0, ((1, digit),))
    shifted = divmod_form(shift(found.start, index), digit.stride)[0]
    value = shifted if digit.is_outermost else divmod_form(shifted, digit.extent)[1]
    return add(value, shift(atom(axis), -index)) if digit.stride == 1 else value
