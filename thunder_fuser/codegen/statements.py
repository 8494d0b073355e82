"""Statements, accesses and indices as C++ text.

Index literals are marked, so that `Source` can set them apart.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import gcd

from typing_extensions import assert_never

from thunder_fuser.analysis.carries import behind, straight
from thunder_fuser.analysis.digits import Digit, Form, Loaded, Opaque, add, scale, shift
from thunder_fuser.analysis.exclusive import Windows, cover, exclude
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.codegen.blocks import each
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.codegen.values import CHECKS, expression, in_square, lane_index, operand
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.map_ir import Kernel
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.scopes import Scope
from thunder_fuser.kernel.statements import (
    Accumulate,
    Assign,
    Guarded,
    Hold,
    LaneStatement,
    VectorAccess,
    WriteElement,
    WriteSquare,
    WriteVector,
    checked_by_lane,
)

WHOLE = "is_whole"  # of the loads of a row, that memory has all of their vectors
NOT_KNOWN = "tf::No{}"
LEFT = "left"  # lanes before the end of a row
MIN_COPY = 4  # bytes that the hardware copies to shared memory in the background, at least
INNER = "is_inner"  # the constant that tells of a vector that all of its elements are its row's


def load_text(
    access: VectorAccess, names: Mapping[IterDomain, str], is_whole: str = NOT_KNOWN
) -> str:
    """A load, as a constant of its name; `is_whole` as of `load_call`."""
    return f"const auto {access.name} = {load_call(access, names, is_whole)};"


def load_call(
    access: VectorAccess, names: Mapping[IterDomain, str], is_whole: str = NOT_KNOWN
) -> str:
    """`is_whole`: the constant that tells of a vector with a window that memory has all of it."""
    if access.beside:
        return _load_beside(access, names)
    if access.lane is not None:
        return _load_lanes(access, names[access.lane], names)
    if access.carried is not None:
        left, other = (form_text(f, names) for f in (access.carried.left, access.carried.offset))
        elements = f"{address(access, names)}, {access.pointer} + {other}"
        return f"tf::load_carried<{access.length}>({elements}, {left})"
    if access.is_in_words:
        kind = f"{CUDA_TYPES[access.dtype]}, {access.length}"
        return f"tf::load_words<{kind}>({address(access, names)})"
    arguments = f"{CUDA_TYPES[access.dtype]}, {access.length}, {access.access_bytes}"
    if access.is_of_row:
        return load_of_row(access, address(access, names), names)
    if access.window is not None:
        inside = _inside(access.window, names)
        if access.is_apart:
            return f"tf::load_apart<{arguments}>({address(access, names)}, {inside})"
        arguments += ", true" if access.is_constant else ""
        move = "load_inside" if is_whole == INNER else "load_within"
        return f"tf::{move}<{arguments}>({address(access, names)}, {inside}, {is_whole})"
    test = _needed(access, names)
    if test:
        return f"tf::load_if<{arguments}>({test}, {address(access, names)})"
    move = "load_streaming" if access.is_streaming else "load"
    return f"tf::{move}<{arguments}>({address(access, names)})"


def _load_beside(access: VectorAccess, names: Mapping[IterDomain, str]) -> str:
    """A vector and the elements on both sides of it."""
    vector = replace(access, before=(), behind=())
    kind, size = CUDA_TYPES[access.dtype], access.dtype.itemsize
    singles = [f"tf::beside<{len(access.before)}>({load_call(vector, names)}"]
    for other in access.beside:
        place, test = form_text(other.offset, names), windows_text(other.guards, names)
        if test:
            lambdas = f"[&](int) {{ return {test}; }}, [&](int) {{ return {place}; }}"
            singles.append(f"tf::load_lanes_if<1, {size}>({access.pointer}, {lambdas})")
        else:
            singles.append(f"tf::load<{kind}, 1, {size}>({access.pointer} + {place})")
    return ", ".join(singles) + ")"


def load_of_row(access: VectorAccess, source: str, names: Mapping[IterDomain, str]) -> str:
    """The vector at `source` of a row that is the window of its access."""
    end = [] if access.end is None else [end_of(access)]
    return row_call("load_row", access, source, names, *end)


def row_call(
    move: str,
    access: VectorAccess,
    source: str,
    names: Mapping[IterDomain, str],
    *end: str,
    test: str = "",
) -> str:
    """A function that loads the vector at `source` of a row, of one that passes a `test`."""
    window, arguments = access.window, f"{CUDA_TYPES[access.dtype]}, {access.length}"
    assert window is not None
    extent = f"{test} ? {number(window.extent)} : 0" if test else number(window.extent)
    operands = ", ".join((source, form_text(window.form, names), extent, *end))
    return f"tf::{move}<{arguments}>({operands})"


def end_of(access: VectorAccess) -> str:
    """Where memory ends inside a word."""
    assert access.end is not None
    return f"{access.pointer} + {number(access.end)}"


def _load_lanes(access: VectorAccess, lane: str, names: Mapping[IterDomain, str]) -> str:
    """Each lane's element, or that of several side by side, where they read one."""
    size = f"{access.length}, {access.access_bytes}"
    place, test = _place_of_lanes(access, lane, names), _test_of_lanes(access, lane, names)
    if not test:
        return f"tf::load_lanes<{size}>({access.pointer}, {place})"
    return f"tf::load_lanes_if<{size}>({access.pointer}, {test}, {place})"


def _place_of_lanes(access: VectorAccess, lane: str, names: Mapping[IterDomain, str]) -> str:
    """Where a lane reads, as a function."""
    return f"[&](int {lane}) {{ return {_chosen(access.choices, names)}; }}"


def _test_of_lanes(access: VectorAccess, lane: str, names: Mapping[IterDomain, str]) -> str:
    """Whether a lane reads, as a function; nothing where all do."""
    test = _needed(access, names)
    return f"[&](int {lane}) {{ return {test}; }}" if test else ""


def _needed(access: VectorAccess, names: Mapping[IterDomain, str]) -> str:
    """What holds where something is read; nothing where that is so always, as the guards of all
    that it chooses from leave nothing out."""
    guards = [choice.guards for choice in access.choices]
    if not access.guards or cover(guards):
        return ""
    return " || ".join(windows_text(tests, names) for tests in guards)


def _chosen(choices: Sequence[Guarded], names: Mapping[IterDomain, str]) -> str:
    """The offset of the choice that is under its guards, where one is. A guard that tells some from
    all others is tested once, and what digits do apart from others is added."""
    first, *rest = choices
    if not rest:
        return form_text(first.offset, names)
    if sum(map(len, parts := _parts(choices))) < len(choices):
        moves = (f"({_chosen(part, names)})" for part in parts)
        return " + ".join((form_text(first.offset, names), *moves))
    for guard in first.guards:
        inside = [choice for choice in choices if guard in choice.guards]
        outside = [choice for choice in choices if guard not in choice.guards]
        if outside and all(exclude((guard,), choice.guards) for choice in outside):
            here, there = (_chosen(side, names) for side in (inside, outside))
            here = f"({here})" if len(inside) > 1 else here
            return f"{window_text(guard, names)} ? {here} : {there}"
    test = windows_text(first.guards, names)
    return f"{test} ? {form_text(first.offset, names)} : {_chosen(rest, names)}"


def _parts(choices: Sequence[Guarded]) -> list[list[Guarded]]:
    """How far from the first choice others are, in parts of which each is decided by digits of its
    own: of three places along each of two axes three and three, not nine."""
    start = scale(choices[0].offset, -1)
    left = [Guarded(add(choice.offset, start), choice.guards) for choice in choices]
    parts = []
    for terms in dict.fromkeys(guard.form.terms for guard in choices[0].guards):
        sets: dict[Windows, dict[Windows, Form]] = {}
        for choice in left:
            own = tuple(g for g in choice.guards if g.form.terms == terms)
            others = tuple(g for g in choice.guards if g not in own)
            sets.setdefault(own, {})[others] = choice.offset
        first = next(iter(sets.values()))
        moves = [_move(first, moved) for moved in sets.values()]
        if None not in moves and len(first) > 1 < len(sets):
            parts.append([Guarded(m, own) for m, own in zip(moves, sets, strict=True) if m])
            left = [Guarded(form, guards) for guards, form in first.items()]
    return [*parts, left]


def _move(places: Mapping[Windows, Form], others: Mapping[Windows, Form]) -> Form | None:
    """How far all of `others` are from places under the same guards; None if that is not one."""
    if places.keys() != others.keys():
        return None
    moves = {add(others[guards], scale(form, -1)) for guards, form in places.items()}
    return moves.pop() if len(moves) == 1 else None


def address(access: VectorAccess, names: Mapping[IterDomain, str]) -> str:
    """Where an access begins."""
    place = _chosen(access.choices, names)
    return f"{access.pointer} + ({place})" if access.others else f"{access.pointer} + {place}"


def store_text(access: VectorAccess, names: Mapping[IterDomain, str]) -> str:
    """A store of the vector of its name, where it has a place whose guards hold: of one with a
    window only the elements in it."""
    test, stored = _needed(access, names), _stored(access, names)
    return f"if ({test}) {stored}" if test else stored


def _stored(access: VectorAccess, names: Mapping[IterDomain, str]) -> str:
    to = f"{address(access, names)}, {access.name}"
    if access.is_of_row and access.window is not None:
        arguments = f"{access.access_bytes}, {gcd(access.window.extent, access.length)}"
        return f"tf::store_row<{arguments}>({to}, {_inside(access.window, names)});"
    if access.window is not None:
        inside = _inside(access.window, names)
        return f"tf::store_within<{access.access_bytes}>({to}, {inside}, {INNER});"
    if access.is_in_words:
        return f"tf::store_words({to});"
    return store_call(access, to)


def store_call(access: VectorAccess, to: str) -> str:
    """Where the size of a store decides whether it bypasses the cache, it is told as a literal: so
    kernels for small and for large ones are a family."""
    if access.is_streaming is None:
        return f"tf::store<{access.access_bytes}>({to});"
    return f"tf::store_hinted<{access.access_bytes}>({to}, {hint(access.is_streaming)});"


def copy_text(
    access: VectorAccess,
    array: str,
    index: str,
    names: Mapping[IterDomain, str],
    is_whole: str = NOT_KNOWN,
) -> str:
    """A load that goes on in the background, to a place of an array in shared memory; of elements
    that are too small for that, or two for all lanes, one that does not."""
    if access.lane is not None and access.access_bytes >= MIN_COPY:
        lane = names[access.lane]
        place, test = _place_of_lanes(access, lane, names), _test_of_lanes(access, lane, names)
        of_lanes = ", ".join((array, index, access.pointer, place, *([test] if test else [])))
        return f"tf::copy_async_lanes<{access.access_bytes}>({of_lanes});"
    if access.lane is not None or access.carried is not None:
        return f"{array}[{index}] = {load_call(access, names)};"
    arguments = f"{array}, {index}, {address(access, names)}"
    if access.window is not None:
        inside = _inside(access.window, names)
        if access.is_apart:
            return f"tf::copy_async_apart<{access.access_bytes}>({arguments}, {inside});"
        return f"tf::copy_async_within<{access.access_bytes}>({arguments}, {inside}, {is_whole});"
    test = _needed(access, names)
    if test:
        return f"tf::copy_async_if<{access.access_bytes}>({test}, {arguments});"
    return f"tf::copy_async<{access.access_bytes}>({arguments});"


def _inside(window: Window, names: Mapping[IterDomain, str]) -> str:
    return f"{form_text(window.form, names)}, {number(window.extent)}"


def block_text(kernel: Kernel | RowKernel) -> str:
    """The number of the block, in the order in which its kernel wants them."""
    return "(gridDim.x - 1 - blockIdx.x)" if kernel.is_reversed else "blockIdx.x"


def vector_type(access: VectorAccess) -> str:
    """Of what an access moves."""
    return f"tf::Vec<{CUDA_TYPES[access.dtype]}, {access.elements}>"


def renewed(accesses: Sequence[VectorAccess], count: int) -> list[str]:
    """So many vectors that a thread keeps of each, so that the next phase converts them again."""
    calls = [f"tf::renew({a.name}[k]);" for a in accesses if a.dtype.itemsize == 2]
    return each("k", count, calls)


def scope_lines(scope: Scope, names: Mapping[IterDomain, str], lanes: int) -> list[str]:
    """Indices, loads, statements and stores, in this order."""
    lines = [statement_text(s, names) for s in scope.before]
    lines += [load_text(a, names) for a in scope.loads]
    return lines + lane_lines(scope.statements, scope.stores, names, lanes)


def lane_lines(
    statements: Sequence[LaneStatement],
    stores: Sequence[VectorAccess],
    names: Mapping[IterDomain, str],
    lanes: int,
) -> list[str]:
    """The statements, once for each of several lanes, and then the stores of what they filled."""
    vectors = {a.name: vector_type(a) for a in stores}  # replicas share one
    told = checked_by_lane(statements) if lanes > 1 else tuple(statements)
    lines = [statement_text(s, names) for s in told]
    lines = each("lane", lanes, lines) if lanes > 1 else lines
    if told != tuple(statements):
        lines = [f"tf::LaneChecks {CHECKS};", *lines, f"{CHECKS}.end();"]
    declared = [f"{kind} {name};" for name, kind in vectors.items()]
    return [*declared, *lines, *(store_text(a, names) for a in stores)]


def statement_text(statement: LaneStatement, names: Mapping[IterDomain, str]) -> str:
    """A lane statement as C++, in the loop over lanes."""

    def form(f: Form) -> str:
        return form_text(f, names)

    def test(windows: Sequence[Window]) -> str:
        return windows_text(windows, names)

    match statement:
        case Assign(variable, value):
            kind = COMPUTE_TYPES[variable.dtype]
            return (
                f"const {kind} {variable.name} = {expression(value, variable.dtype, form, test)};"
            )
        case WriteVector(vector, weight, delta, value, dtype):
            place = f"{vector}.v[{lane_index(weight, delta)}]"
            return f"{place} = tf::convert<{CUDA_TYPES[dtype]}>({operand(value)});"
        case WriteSquare(square, tile, value, dtype):
            converted = f"tf::convert<{CUDA_TYPES[dtype]}>({operand(value)})"
            return f"{in_square(square, tile, form)} = {converted};"
        case WriteElement(pointer, offset, value, dtype, windows):
            converted = f"tf::convert<{CUDA_TYPES[dtype]}>({operand(value)})"
            return f"{_unless_inside(test(windows))}{pointer}[{form(offset)}] = {converted};"
        case Accumulate(accumulator, op, value, windows):
            names_of = {"t": COMPUTE_TYPES[accumulator.dtype]}
            step = op.step or op.combine
            combined = step.format(accumulator.name, operand(value), **names_of)
            return f"{_unless_inside(test(windows))}{accumulator.name} = {combined};"
        case Hold(place, value):
            return f"{place.name} = {operand(value)};"
        case _:
            assert_never(statement)


def _unless_inside(tests: str) -> str:
    """What lies beside the row is left out, by vectors that may reach some."""
    return f"if ({INNER} || {tests}) " if tests else ""


def windows_text(windows: Sequence[Window], names: Mapping[IterDomain, str]) -> str:
    """The test of all windows: one after another, but where none takes a division."""
    both = " & " if isinstance(names, Crossed) else " && "
    return both.join(window_text(w, names) for w in windows)


def window_text(window: Window, names: Mapping[IterDomain, str]) -> str:
    """The test of a window: one comparison where the other side can never be left."""
    text = form_text(window.form, names)
    low, high = window.form.bounds
    extent = number(window.extent)
    if low >= 0:
        return f"{text} < {extent}" if high >= window.extent else ""
    return f"tf::within({text}, {extent})" if high >= window.extent else f"{text} >= 0"


class Crossed(dict[IterDomain, str]):
    """The names in a body whose lanes come to the end of one row at most: `left` of them are before
    it. What a lane has to divide is then one of two `starts` that its thread knows, and counts."""

    def __init__(self, names: Mapping[IterDomain, str], lane: IterDomain) -> None:
        super().__init__(names)
        self.lane, self.starts = lane, dict[tuple[Form, Form], str]()

    def start(self, before: Form, after: Form) -> str:
        """What counts from one form or, behind the end of the row, from the other; of a name that
        no parameter has."""
        name = self.starts.setdefault((before, after), f"start{len(self.starts)}")
        return f"({self[self.lane]} < {LEFT} ? {name} : {name}_next)"

    def lines(self) -> list[str]:
        """The starts that were asked for, as variables: as forms the compiler would put them back
        into lanes, one division for two."""
        return [
            f"const auto {end} = tf::settled({form_text(form, dict(self))});"
            for pair, name in self.starts.items()
            for end, form in zip((name, f"{name}_next"), pair, strict=True)
        ]


def form_text(form: Form, names: Mapping[IterDomain, str]) -> str:
    """A form as a C expression, in parentheses unless it is one term."""
    if isinstance(names, Crossed):
        return _crossed_text(form, names)
    parts = []
    for weight, digit in form.terms:
        text = _digit_text(digit, names)
        parts.append(text if weight == 1 else f"{number(weight)} * {text}")
    if form.constant or not parts:
        parts.append(number(form.constant))
    return parts[0] if len(parts) == 1 and len(form.terms) == 0 else f"({' + '.join(parts)})"


def _crossed_text(form: Form, names: Crossed) -> str:
    before, after = straight(form, names.lane), behind(form, names.lane)
    along = tuple(term for term in before.terms if term[1].base is names.lane)
    known = (shift(f, -form.constant) for f in (before, after))
    first, other = (Form(f.constant, tuple(t for t in f.terms if t not in along)) for f in known)
    if before == after or names.lane in first.bases | other.bases:
        return form_text(form, dict(names))
    steps = (
        names[names.lane] if w == 1 else f"{number(w)} * {names[names.lane]}" for w, _ in along
    )
    parts = [names.start(first, other), *steps]
    if form.constant:
        parts.append(number(form.constant))
    return f"({' + '.join(parts)})" if len(parts) > 1 else parts[0]


def _digit_text(digit: Digit, names: Mapping[IterDomain, str]) -> str:
    match digit.base:
        case Opaque(form):
            text = form_text(form, names)
        case Loaded() as loaded:
            text = loaded.name
        case axis:
            text = names[axis]
    if digit.stride > 1:
        text = f"({text} / {number(digit.stride)})"
    return text if digit.is_outermost else f"({text} % {number(digit.extent)})"


def number(value: int) -> str:
    """An index literal, marked so that `Source` can set it apart."""
    return f"\x01{value}\x02"


def counted(value: int) -> str:
    """A literal that counts blocks or threads: it may be the same for many sizes, but not for
    all."""
    return f"\x01{value}\x04"


def hint(value: bool) -> str:
    """A literal, 1 or 0, that changes how fast a kernel is and not for which sizes it is."""
    return f"\x01{int(value)}\x03"
