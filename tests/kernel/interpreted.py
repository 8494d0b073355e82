"""A map kernel walked thread by thread: the elements that it reads and writes.

It is walked twice: with every index that a tensor holds at its least and at its largest value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.schedule.segments import points
from thunder_fuser.analysis.digits import Form, Loaded, Opaque, add, evaluate, scale
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.map_ir import Body, Kernel, Turning
from thunder_fuser.kernel.statements import (
    Assign,
    LaneStatement,
    ReadElement,
    VectorAccess,
    WriteElement,
)

Point = dict[IterDomain, int]


@dataclass
class Walk:
    """Elements by the name of their tensor; how often each is written."""

    read: dict[str, set[int]] = field(default_factory=dict)
    written: dict[str, Counter[int]] = field(default_factory=dict)
    misaligned: list[VectorAccess] = field(default_factory=list)


def walk(kernel: Kernel) -> Walk:
    found = Walk()
    for group in kernel.groups:
        for body in group:
            for point in points(body.axes):
                _thread(found, body, point)
            if body.turning is not None:
                _turn(found, body, body.turning)
    return found


def _turn(found: Walk, body: Body, turning: Turning) -> None:
    tile = turning.tile
    walked = {tile.down: tile.turned_down, tile.across: tile.turned_across}
    for point in points([walked.get(axis, axis) for axis in body.axes]):
        for access in turning.loads:
            found.read.setdefault(access.pointer, set()).update(_elements(found, access, point))
        for access in turning.stores:
            elements = _elements(found, access, point)
            found.written.setdefault(access.pointer, Counter()).update(elements)


def _thread(found: Walk, body: Body, point: Point) -> None:
    for end in (False, True):
        for access in body.loads:
            elements = _elements(found, access, point, end)
            found.read.setdefault(access.pointer, set()).update(elements)
        for lane in range(body.lanes):
            here = point if body.lane is None else {**point, body.lane: lane}
            for statement in (*body.before, *body.statements):
                _read(found, statement, here, end)
    for access in body.stores:
        found.written.setdefault(access.pointer, Counter()).update(_elements(found, access, point))
    for lane in range(body.lanes):
        here = point if body.lane is None else {**point, body.lane: lane}
        for statement in body.statements:
            if isinstance(statement, WriteElement):
                offset = evaluate(statement.offset, here)
                found.written.setdefault(statement.pointer, Counter())[offset] += 1


def _read(found: Walk, statement: LaneStatement, here: Point, end: bool) -> None:
    match statement:
        case Assign(value=ReadElement(pointer, offset, _, windows)):
            if _hold(windows, here, end):
                found.read.setdefault(pointer, set()).add(evaluate(_pinned(offset, end), here))


def _hold(windows: Iterable[Window], here: Point, end: bool) -> bool:
    return all(0 <= evaluate(_pinned(w.form, end), here) < w.extent for w in windows)


def _elements(found: Walk, access: VectorAccess, point: Point, end: bool = False) -> Sequence[int]:
    if access.lane is not None:
        return _apart(access, [{**point, access.lane: k} for k in range(access.length)], end)
    if not _hold(access.guards, point, end):
        return range(0)
    start = evaluate(_pinned(access.offset, end), point)
    if start * access.dtype.itemsize % access.access_bytes:
        found.misaligned.append(access)
    if access.carried is not None:
        carried = evaluate(_pinned(access.carried.offset, end), point)
        is_left = evaluate(_pinned(access.carried.left, end), point) < access.length
        return [start, carried] if is_left else [start]
    elements = range(start, start + access.length)
    if access.window is None:
        return elements
    first = evaluate(_pinned(access.window.form, end), point)
    return [e for e in elements if 0 <= first + e - start < access.window.extent]


def _apart(access: VectorAccess, lanes: Sequence[Point], end: bool) -> Sequence[int]:
    """The elements of lanes that lie apart; those that use none read the first one of all."""
    read = []
    for at in lanes:
        held = [c.offset for c in access.choices if _hold(c.guards, at, end)]
        assert len(held) <= 1, "choices exclude each other"
        read += [evaluate(_pinned(offset, end), at) for offset in held] or [0]
    return read


def _pinned(form: Form, end: bool) -> Form:
    """`form` where every loaded index is 0, or the last one."""
    made = Form(form.constant)
    for weight, digit in form.terms:
        match digit.base:
            case Opaque(inner):
                digit = digit._replace(base=Opaque(_pinned(inner, end)))
            case Loaded(extent=extent):
                value = (extent - 1) * end // digit.stride % digit.extent
                made = add(made, Form(weight * value))
                continue
        made = add(made, scale(Form(0, ((1, digit),)), weight))
    return made
