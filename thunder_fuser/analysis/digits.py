"""Digit forms: the one place where div and mod are reasoned about.

The index of an axis, as a function of other axes, is kept as a constant plus weighted digits

    index = constant + sum(weight * digit),      digit = (base / stride) % extent

with `/` and `%` floor division and remainder. Merging axes adds forms, splitting an axis divides a
form, resizing shifts it:

    i: 96   as [m, d, c] = [3, 4, 8]      m = (i/32)%3   d = (i/8)%4   c = (i/1)%8
    merge(d, c) = 8*((i/8)%4) + (i%8) = (i/1)%32          two digits that line up are one digit

The index along a gathered axis is what an integer tensor holds at an index of its own: a base like
any other (`Loaded`), of which only the range is known.

Two axes with equal canonical forms and equal extents have equal index maps. Where a division does
not line up with the digits the form gets an `Opaque` base, which is equal only to itself: a missed
equality costs a copy or a div instruction, never a wrong answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, TypeAlias

from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView


@dataclass(frozen=True)
class Opaque:
    """The value of a form, never negative, that a division could not be distributed over."""

    form: Form

    @property
    def limit(self) -> int:
        return self.form.bounds[1] + 1


@dataclass(frozen=True)
class Loaded:
    """The value of an integer tensor at an index, which is checked to lie in [0, extent). `name` is
    the variable that holds it, once code is generated."""

    tensor: TensorView
    index: tuple[Form, ...]
    extent: int
    name: str = ""

    @cached_property
    def bases(self) -> frozenset[IterDomain]:
        """Every axis that the value depends on."""
        return frozenset[IterDomain]().union(*(form.bases for form in self.index))


Base: TypeAlias = IterDomain | Opaque | Loaded


class Digit(NamedTuple):
    """`(base / stride) % extent` with 0 <= base < limit. Where `stride * extent >= limit` the
    modulus is inactive: the digit is the outermost one of its base."""

    base: Base
    stride: int
    extent: int
    limit: int

    @property
    def is_outermost(self) -> bool:
        return self.stride * self.extent >= self.limit

    @property
    def is_whole(self) -> bool:
        """True where the digit is its base."""
        return self.stride == 1 and self.extent >= self.limit


Term: TypeAlias = tuple[int, Digit]


@dataclass(frozen=True)
class Form:
    """`constant + sum(weight * digit)`; terms by falling weight, neighbours that line up joined."""

    constant: int = 0
    terms: tuple[Term, ...] = ()

    @cached_property
    def bounds(self) -> tuple[int, int]:
        """The least and the greatest value that the digits' extents allow."""
        low = high = self.constant
        for weight, digit in self.terms:
            reach = weight * (digit.extent - 1)
            low, high = low + min(reach, 0), high + max(reach, 0)
        return low, high

    @cached_property
    def reach(self) -> int:
        """A bound on the magnitude of all that evaluation meets: every partial sum, in any order,
        and what stands inside a division, which may be far larger than the result."""
        steps = [weight * (digit.extent - 1) for weight, digit in self.terms]
        ends = (sum(s for s in (*steps, self.constant) if s * sign > 0) for sign in (1, -1))
        inside = (d.base.form.reach for _, d in self.terms if isinstance(d.base, Opaque))
        return max(*map(abs, ends), *inside)

    @cached_property
    def bases(self) -> frozenset[IterDomain]:
        """Every axis that the value depends on."""
        found: set[IterDomain] = set()
        for _, digit in self.terms:
            match digit.base:
                case Opaque(form):
                    found |= form.bases
                case Loaded() as loaded:
                    found |= loaded.bases
                case axis:
                    found.add(axis)
        return frozenset(found)

    @property
    def is_constant(self) -> bool:
        return not self.terms


ZERO = Form()


def ceil_div(a: int, b: int) -> int:
    """`a / b` rounded up: the outer extent of a split by `b`."""
    return -(-a // b)


def atom(axis: IterDomain, extent: int | None = None) -> Form:
    """The index of `axis` itself, which has `extent` (by default the axis's own) values."""
    size = axis.size if extent is None else extent
    return ZERO if size <= 1 else Form(0, ((1, Digit(axis, 1, size, size)),))


def gathered(loaded: Loaded) -> Form:
    """The index that `loaded` holds."""
    digit = Digit(loaded, 1, loaded.extent, loaded.extent)
    return ZERO if loaded.extent <= 1 else Form(0, ((1, digit),))


def loads_in(forms: Iterable[Form]) -> Iterator[Loaded]:
    """Every loaded index that the value of one of `forms` needs first."""
    for form in forms:
        for _, digit in form.terms:
            match digit.base:
                case Opaque(inner):
                    yield from loads_in((inner,))
                case Loaded() as loaded:
                    yield loaded


def named(form: Form, names: Mapping[Loaded, str]) -> Form:
    """`form` with the names of the variables that hold its loaded indices."""
    if not any(loads_in((form,))):
        return form
    terms: list[Term] = []
    for weight, digit in form.terms:
        match digit.base:
            case Opaque(inner):
                base: Base = Opaque(named(inner, names))
            case Loaded() as loaded:
                base = replace(loaded, name=names[loaded])
            case axis:
                base = axis
        terms.append((weight, digit._replace(base=base)))
    return Form(form.constant, tuple(terms))


def shift(form: Form, amount: int) -> Form:
    """`form + amount`: an index seen through a resize."""
    return form if amount == 0 else Form(form.constant + amount, form.terms)


def scale(form: Form, factor: int) -> Form:
    """`form * factor`: an index along an axis of that stride."""
    if factor == 1:
        return form
    if factor == 0:
        return ZERO
    return _canonical(form.constant * factor, [(w * factor, d) for w, d in form.terms])


def add(a: Form, b: Form) -> Form:
    if not b.terms:
        return shift(a, b.constant)
    if not a.terms:
        return shift(b, a.constant)
    return _canonical(a.constant + b.constant, [*a.terms, *b.terms])


def combine(outer: Form, inner: Form, inner_extent: int) -> Form:
    """`outer * inner_extent + inner`: a merge forward, a split backward."""
    return add(scale(outer, inner_extent), inner)


def flip(form: Form, extent: int) -> Form:
    """`extent - 1 - form`."""
    return shift(scale(form, -1), extent - 1)


def divmod_form(form: Form, divisor: int) -> tuple[Form, Form]:
    """`(form / divisor, form % divisor)`: a split forward, a merge backward.

    Exact: terms whose weight is a multiple of the divisor go to the quotient (integer division
    distributes over multiples), digits are cut where the divisor falls between two of their own
    digits, and what is left must stay inside one divisor's range. Otherwise an `Opaque` base.
    """
    if divisor == 1:
        return form, ZERO
    return (
        _one_digit_divmod(form, divisor)
        or _exact_divmod(form, divisor)
        or _opaque_divmod(form, divisor)
    )


def unflatten(form: Form, sizes: Sequence[int]) -> tuple[Form, ...]:
    """The index of each dim from a linear index over all of them, which is less than their product
    whatever its bounds are: the outermost one is what the others leave."""
    units = next((k for k, size in enumerate(sizes) if size != 1), len(sizes))
    found: list[Form] = []
    for size in reversed(sizes[units + 1 :]):
        form, low = divmod_form(form, size)
        found.append(low)
    outermost = (form,) if units < len(sizes) else ()
    return (*(ZERO,) * units, *outermost, *reversed(found))


def _one_digit_divmod(form: Form, divisor: int) -> tuple[Form, Form] | None:
    """`_exact_divmod` for one digit of an axis that the divisor cuts evenly: the common case, which
    needs no bounds and no sorting."""
    if len(form.terms) != 1 or form.constant % divisor:
        return None
    weight, (base, stride, extent, limit) = form.terms[0]
    if weight != 1 or extent % divisor or extent == divisor or isinstance(base, Opaque):
        return None
    outer = Digit(base, stride * divisor, extent // divisor, limit)
    inner = Digit(base, stride, divisor, limit)
    return Form(form.constant // divisor, ((1, outer),)), Form(0, ((1, inner),))


def _exact_divmod(form: Form, divisor: int) -> tuple[Form, Form] | None:
    quotient: list[Term] = []
    rest: list[Term] = []
    for weight, digit in form.terms:
        high, low = _cut_term(weight, digit, divisor)
        quotient += high
        rest += low
    low_bound, high_bound = Form(form.constant, tuple(rest)).bounds
    carry = low_bound // divisor
    if high_bound - carry * divisor >= divisor:
        return None
    return _canonical(carry, quotient), _canonical(form.constant - carry * divisor, rest)


def _opaque_divmod(form: Form, divisor: int) -> tuple[Form, Form]:
    """Multiples of the divisor leave; the rest becomes one base. It is taken uncut, so that its
    bounds stay tight and `quotient * divisor + remainder` is the old form again."""
    multiples = [(w // divisor, d) for w, d in form.terms if w % divisor == 0]
    rest = Form(form.constant, tuple((w, d) for w, d in form.terms if w % divisor))
    carry = rest.bounds[0] // divisor
    left = shift(rest, -carry * divisor)
    limit = left.bounds[1] + 1
    base, outer_extent = Opaque(left), ceil_div(limit, divisor)
    outer = (1, Digit(base, divisor, outer_extent, limit))
    inner = (1, Digit(base, 1, divisor, limit))
    return _canonical(carry, [*multiples, outer]), Form(0, (inner,))


def _cut_term(weight: int, digit: Digit, divisor: int) -> tuple[list[Term], list[Term]]:
    """The parts of one term that a division by `divisor` sends to quotient and remainder."""
    if weight % divisor == 0:
        return [(weight // divisor, digit)], []
    inner, misaligned = divmod(divisor, abs(weight))
    if misaligned or inner >= digit.extent:
        return [], [(weight, digit)]
    outer, uneven = divmod(digit.extent, inner)
    if uneven and not digit.is_outermost:
        return [], [(weight, digit)]
    high = Digit(digit.base, digit.stride * inner, outer + bool(uneven), digit.limit)
    low = Digit(digit.base, digit.stride, inner, digit.limit)
    return [(1 if weight > 0 else -1, high)], [(weight, low)]


def in_multiples(form: Form, unit: int) -> tuple[Form, Form]:
    """The part of an index that is a multiple of `unit` whatever its axes are, and the rest; all is
    rest where a part could be negative."""
    whole = tuple(term for term in form.terms if term[0] % unit == 0)
    rest = tuple(term for term in form.terms if term[0] % unit)
    left = form.constant % unit
    parts = Form(form.constant - left, whole), Form(left, rest)
    return parts if all(part.bounds[0] >= 0 for part in parts) else (Form(), form)


def substitute(form: Form, values: Mapping[IterDomain, Form]) -> Form:
    """`form` with each axis in `values` replaced by its value in terms of other axes."""
    if form.bases.isdisjoint(values):
        return form
    result = Form(form.constant)
    for weight, digit in form.terms:
        result = add(result, scale(_digit_of(digit, values), weight))
    return result


def _digit_of(digit: Digit, values: Mapping[IterDomain, Form]) -> Form:
    match digit.base:
        case Opaque(form):
            value = substitute(form, values)
        case Loaded() as loaded:
            index = tuple(substitute(f, values) for f in loaded.index)
            value = gathered(replace(loaded, index=index))
        case axis if axis in values:
            value = values[axis]
        case _:
            return Form(0, ((1, digit),))
    shifted = divmod_form(value, digit.stride)[0]
    return shifted if digit.is_outermost else divmod_form(shifted, digit.extent)[1]


def inverted(index: Sequence[Form], values: Sequence[Form]) -> dict[IterDomain, Form] | None:
    """The axes of `index` where it takes these values: of 7*a + b, a = v/7 and b = v%7. None where
    it takes a value nowhere, or in several places."""
    digits: dict[IterDomain, list[tuple[Digit, Form]]] = {}
    for form, value in zip(index, values, strict=True):
        left, unit = shift(value, -form.constant), 1
        for weight, digit in reversed(form.terms):
            if weight != unit or not isinstance(digit.base, IterDomain):
                return None
            own, unit = left, weight * digit.extent
            if (weight, digit) != form.terms[0]:
                left, own = divmod_form(left, digit.extent)
            digits.setdefault(digit.base, []).append((digit, own))
    found = {}
    for axis, parts in digits.items():
        total, reached = ZERO, 1
        for digit, own in sorted(parts, key=lambda part: part[0].stride):
            if digit.stride != reached:
                return None
            total, reached = add(total, scale(own, reached)), reached * digit.extent
        if reached < axis.size:
            return None
        found[axis] = total
    return found


def weight_of(form: Form, axis: IterDomain) -> int | None:
    """How much the value grows with each index of `axis`; None where that is not always as much."""
    if axis not in form.bases:
        return 0
    own = [term for term in form.terms if term[1].base is axis and term[1].is_whole]
    others = Form(0, tuple(term for term in form.terms if term not in own))
    return own[0][0] if len(own) == 1 and axis not in others.bases else None


def evaluate(form: Form, values: Mapping[IterDomain, int]) -> int:
    """The value at one point; `values` has the index of every axis of `form.bases`. Raises
    ValueError where it depends on data."""
    total = form.constant
    for weight, digit in form.terms:
        match digit.base:
            case Opaque(inner):
                index = evaluate(inner, values)
            case Loaded() as loaded:
                raise ValueError(f"an index depends on the values of {loaded.tensor!r}")
            case axis:
                index = values[axis]
        total += weight * ((index // digit.stride) % digit.extent)
    return total


def _canonical(constant: int, terms: list[Term]) -> Form:
    """Join digits that line up, add equal ones, open bases that are whole again, sort."""
    if len(terms) < 2:  # the common case: most axes are one digit, cut once
        return _single(constant, terms)
    weights: dict[Digit, int] = {}
    for weight, digit in terms:
        digit = _clip(digit)
        if digit.extent > 1:
            weights[digit] = weights.get(digit, 0) + weight
    ordered = sorted(((w, d) for d, w in weights.items() if w), key=lambda t: (-abs(t[0]), t[0]))
    joined: list[Term] = []
    for weight, digit in ordered:
        if not _join(joined, weight, digit):
            joined.append((weight, digit))
    opened = [(t, form) for t in joined if (form := _opened(t[1])) is not None]
    if not opened:
        return Form(constant, tuple(joined))
    for term, form in opened:
        joined.remove(term)
        constant += term[0] * form.constant
        joined += [(term[0] * w, d) for w, d in form.terms]
    return _canonical(constant, joined)


def _single(constant: int, terms: list[Term]) -> Form:
    """`_canonical` of at most one term."""
    if not terms or not terms[0][0]:
        return Form(constant)
    weight, digit = terms[0]
    digit = _clip(digit)
    if digit.extent == 1:
        return Form(constant)
    form = _opened(digit)
    if form is None:
        return Form(constant, ((weight, digit),))
    return shift(scale(form, weight), constant)


def _opened(digit: Digit) -> Form | None:
    """The digit in terms of what its opaque base was made from, where it lines up with that again:
    (F/s)%e = (F%(s*e))/s."""
    if not isinstance(digit.base, Opaque):
        return None
    value = digit.base.form
    if not digit.is_outermost:
        upper = _exact_divmod(value, digit.stride * digit.extent)
        if upper is None:
            return None
        value = upper[1]
    if digit.stride == 1:
        return value
    cut = _exact_divmod(value, digit.stride)
    return None if cut is None else cut[0]


def _clip(digit: Digit) -> Digit:
    """An outermost digit written with the values it really takes: (i/8)%4 of i < 12 is (i/8)%2."""
    reached = ceil_div(digit.limit, digit.stride)
    if reached >= digit.extent:
        return digit
    return Digit(digit.base, digit.stride, reached, digit.limit)


def _join(joined: list[Term], weight: int, inner: Digit) -> bool:
    """Merge `inner` into the term of `joined` that is the next digit up of the same base, if there
    is one."""
    for position, (outer_weight, outer) in enumerate(joined):
        if outer_weight == weight * inner.extent and _lines_up(outer, inner):
            digit = Digit(inner.base, inner.stride, outer.extent * inner.extent, inner.limit)
            joined[position] = (weight, _clip(digit))
            return True
    return False


def _lines_up(outer: Digit, inner: Digit) -> bool:
    """True where `outer` begins where `inner` ends: of v/45 and ((4*v + lane)/90)%2 too, as 4*v +
    lane divided by 180 is v/45."""
    if outer.base == inner.base:
        return outer.stride == inner.stride * inner.extent
    if not isinstance(inner.base, Opaque) or inner.is_outermost:
        return False
    upper = _exact_divmod(inner.base.form, inner.stride * inner.extent)
    return upper is not None and upper[0] == Form(0, ((1, outer),))


def format_form(form: Form, names: Mapping[IterDomain, str]) -> str:
    """Readable text: `64 + 8*(i0/4)%2 + i1`."""
    parts = [str(form.constant)] if form.constant or not form.terms else []
    for weight, digit in form.terms:
        text = _format_digit(digit, names)
        parts.append(text if weight == 1 else f"{weight}*{text}")
    return " + ".join(parts)


def _format_digit(digit: Digit, names: Mapping[IterDomain, str]) -> str:
    match digit.base:
        case Opaque(form):
            text = f"({format_form(form, names)})"
        case Loaded() as loaded:
            inner = ", ".join(format_form(f, names) for f in loaded.index)
            text = loaded.name or f"loaded({inner})"
        case axis:
            text = names[axis]
    if digit.stride > 1:
        text = f"({text}/{digit.stride})"
    return text if digit.is_outermost else f"({text}%{digit.extent})"
