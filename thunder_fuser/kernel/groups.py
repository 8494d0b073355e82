"""A group schedule to a group kernel."""

from __future__ import annotations

from collections.abc import Callable

from thunder_fuser.analysis.digits import Form, loads_in, scale, shift
from thunder_fuser.analysis.reductions import is_ordering
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.digit_stages import lower_digits
from thunder_fuser.kernel.elements import ElementWriter, rounding
from thunder_fuser.kernel.group_ir import (
    Between,
    GroupKernel,
    GroupSum,
    Pieces,
    Stretch,
    Whole,
)
from thunder_fuser.kernel.integers import integers_at
from thunder_fuser.kernel.known_sums import behind_sums, needs_behind
from thunder_fuser.kernel.names import Names, name_values, pointers_of, scalars_of
from thunder_fuser.kernel.scopes import Scope
from thunder_fuser.kernel.shifted import RowAccesses
from thunder_fuser.kernel.statements import (
    Accumulate,
    Assign,
    Compute,
    Variable,
    forms_of,
)
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.schedule.groups import BATCH, FEW, Ends, GroupSchedule, Piece, Values
from thunder_fuser.schedule.held_terms import FEW_HELD, ROW_BYTES
from thunder_fuser.target import SHARED_UNASKED

AHEAD_BYTES = 64  # of a thread's vectors that are on their way to shared memory


def lower_groups(planned: GroupSchedule, strict: bool) -> GroupKernel:
    """The kernel of a group schedule. `strict` keeps every rounding of the trace."""
    segment = planned.segment
    names = name_values(segment)
    loop = _loop(planned, names, strict, planned.terms)
    pieces = _loop(planned, names, strict, planned.pieces) if planned.pieces else None
    held = planned.held if _is_plain(planned, loop) else None
    return GroupKernel(
        pointers=pointers_of(segment, names),
        scalars=scalars_of(names),
        axes=planned.axes,
        threads_across=planned.threads_across,
        parts=planned.parts,
        rows_per_block=planned.rows_per_block,
        few=FEW if held is None else FEW_HELD,
        batch=BATCH,
        ahead=1 if held is not None else _ahead(planned, loop),
        batch_held=0 if held is None else held.batch,
        stretch=_stretch(planned, names, strict),
        loop=loop,
        pieces=None if pieces is None else Pieces(pieces, planned.stretch.size),
        sums=tuple(_sum(tv, planned, names, strict) for tv, _ in planned.sums),
        final=behind_sums(
            _writer(planned, names, strict), planned.axes, planned.sums, planned.stores
        ),
        beside=None if planned.ends is None else lower_digits(planned.ends, strict),
    )


def _loop(planned: GroupSchedule, names: Names, strict: bool, terms: Values) -> Scope:
    """What a term of each sum adds to it. The vectors of a batch of terms are an array."""
    writer = _writer(planned, names, strict, suffix=lambda tv, offset: "[k]")
    needs = needs_behind(planned.segment, planned.axes, planned.sums, terms)
    ordered = (place for _, index in terms for place in loads_in(index))
    before = writer.locate(filter(planned.axes.is_uniform, (*ordered, *needs.places)))
    writer.request(needs)
    loads = writer.accesses.group_loads()
    writer.evaluate(needs)
    accumulated = []
    for (tv, _), term in zip(planned.sums, terms, strict=True):
        total = _sum(tv, planned, names, strict)
        value = writer.convert(tv, writer.values[term], total.dtype)
        part = Variable(f"{total.name}_part[{writer.accesses.lane_index}]", total.dtype)
        accumulated.append(Accumulate(part, total.op, value))
    return Scope(loads, (*writer.statements, *accumulated), (), before)


def _ahead(planned: GroupSchedule, loop: Scope) -> int:
    """The rows of a part whose first terms are on their way together, in shared memory beside the
    sums of the parts. Those that are checked wait until it is known that there are any."""
    turns = planned.rows_per_block // planned.parts
    each = sum(a.length * a.dtype.itemsize for a in loop.loads)
    is_piece = isinstance(planned.stretch, Piece)
    if not _is_moved(loop) or is_piece or planned.axes.term.size == 0:
        return 1
    sums = sum(tv.dtype.compute_type.itemsize for tv, _ in planned.sums) * planned.axes.lanes
    listed = planned.rows_per_block * ROW_BYTES
    room = (SHARED_UNASKED - listed) // (planned.threads_across * planned.parts) - sums
    ahead = max(1, min(turns, min(room, AHEAD_BYTES) // each))
    return next(n for n in range(ahead, 0, -1) if turns % n == 0)


def _is_moved(loop: Scope) -> bool:
    """True where all that a term needs are vectors, at places that need no check."""
    values = (s.value for s in loop.before if isinstance(s, Assign))
    checks = any(isinstance(value, Compute) and value.op.checks for value in values)
    return bool(loop.loads) and not checks and not any(forms_of(s) for s in loop.statements)


def _is_plain(planned: GroupSchedule, loop: Scope) -> bool:
    """True where these vectors are whole, and the same for whatever row the term is of."""
    is_whole = all(
        a.window is None and a.lane is None and a.carried is None and not a.guards
        for a in loop.loads
    )
    return _is_moved(loop) and is_whole and not any(planned.axes.row in f.bases for f in loop.forms)


def _sum(tv: TensorView, planned: GroupSchedule, names: Names, strict: bool) -> GroupSum:
    dtype, rounded = tv.dtype.compute_type, rounding(tv, planned.segment, strict)
    return GroupSum(names.tensors[tv], dtype, tv.expr.op, rounded)


def _writer(
    planned: GroupSchedule,
    names: Names,
    strict: bool,
    suffix: Callable[[TensorView, Form], str] = lambda tv, offset: "",
) -> ElementWriter:
    segment, axes, streams = planned.segment, planned.axes, planned.streams
    accesses: Accesses
    if axes.is_shifted:
        accesses = RowAccesses(segment.layouts, axes.shifted, names.tensors, suffix)
    else:
        accesses = Accesses(segment.layouts, axes.lane, names.tensors, streams, suffix)
    return ElementWriter(segment, names.tensors, names.scalars, accesses, strict)


def _stretch(planned: GroupSchedule, names: Names, strict: bool) -> Stretch:
    """Where a row's terms lie, from the ends of its group and of the one before, or from the keys
    of a piece."""
    segment, asked = planned.segment, planned.stretch
    match asked:
        case Ends(ends, group, skip):
            places = [shift(group, -1), group]
            before, (begin, end) = integers_at(segment, names, ends, places, strict)
            return Between(before, begin, end, group, skip, is_ordering(ends))
        case Piece(keys, number, skip, size):
            start = scale(number, size)
            places = [start, shift(start, size - 1)]
            before, (first, last) = integers_at(segment, names, keys, places, strict)
            return Whole(before, first, last, number, skip, size)
