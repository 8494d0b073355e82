"""Running sums down columns whose rows are shared, as C++ text.

A thread adds up its batch of rows first, which it keeps. What lies before it in its block it finds
in shared memory, what lies before its block in the workspace, and goes on from both.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from thunder_fuser.codegen.blocks import (
    block,
    by_first_thread,
    each,
    otherwise,
    per_lane,
    unrolled,
    when,
)
from thunder_fuser.codegen.chain_stretches import (
    copied_stretches,
    place_in_stretches,
    put,
    runs_text,
    stored_stretches,
    stretch_places,
    taken,
)
from thunder_fuser.codegen.column_sums import cleared, places_lines
from thunder_fuser.codegen.split_text import (
    combiner,
    combining,
    finished,
    identity,
    parts_of,
    state_type,
)
from thunder_fuser.codegen.statements import (
    lane_lines,
    load_call,
    load_text,
    number,
    scope_lines,
    vector_type,
)
from thunder_fuser.codegen.types import COMPUTE_TYPES, index_type
from thunder_fuser.kernel.column_ir import ColumnKernel
from thunder_fuser.kernel.scopes import Accumulator, Scope
from thunder_fuser.kernel.split_ir import COUNTED, TICKETS, Split, split_of
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.target import REGISTER_BYTES, WARP

TAKEN = 8  # rows of a thread that it takes out of a stretch together
AT_ONCE = 4  # blocks of a window, of which a thread loads what they left


def chain_lines(kernel: ColumnKernel, ahead: Scope) -> list[str]:
    """The statements of the entry point."""
    split = split_of(kernel)
    lines = [*_places(kernel, split), *_declared(kernel), *_loaded(kernel)]
    lines += [*_added_up(kernel, ahead), *_met(kernel)]
    lines += [] if split is None else _told(kernel, split)
    lines += _stored(kernel)
    return [*lines, *_ended(kernel), *([] if split is None else _cleared(kernel, split))]


def _places(kernel: ColumnKernel, split: Split | None) -> list[str]:
    """Which vector of columns a thread has, the last one where it would have none, and its rows."""
    across, down, kind = kernel.threads_across, kernel.threads_down, index_type(kernel.reach)
    batch, rows = kernel.batch, number(kernel.axes.row.size)
    vectors, tiles = number(kernel.axes.vector.size), number(kernel.tiles)
    turn = ["const int group = blockIdx.x, split = 0;"]
    if split is not None:
        drawn = f"tf::turn_of_block(drawn, {TICKETS}, {number(kernel.blocks)})"
        turn = ["__shared__ unsigned drawn;", f"const unsigned turn = {drawn};"]
        turn += [f"const int group = turn % {tiles}, split = turn / {tiles};"]
    return [
        *places_lines(kernel),
        *turn,
        f"const {kind} own = ({kind})group * {across} + place;",
        f"const bool is_there = own < {vectors};",
        f"const {kind} vector = is_there ? own : {vectors} - 1;",
        f"const {kind} start = (({kind})split * {down} + part) * {batch};",
        f"const bool is_whole = start + {batch} <= {rows};",
    ]


def _declared(kernel: ColumnKernel) -> list[str]:
    """What a thread adds up, and the room in which those of a block meet."""
    lanes, lines = kernel.axes.lanes, list[str]()
    places, down = kernel.threads_across * lanes, kernel.threads_down
    for total in kernel.carried:
        kind = state_type(total.op, total.dtype)
        lines.append(f"{kind} {total.name}_part[{lanes}];")
        lines += per_lane(cleared(total), lanes)
        lines.append(f"__shared__ {kind} {total.name}_parts[{down + 1}][{places}];")
        if kernel.splits > 1:
            lines.append(f"__shared__ {kind} {total.name}_asked[{down + 1}][{places}];")
    return lines


def _loaded(kernel: ColumnKernel) -> list[str]:
    """The thread's rows, all on their way together; of those behind the last one that one, which
    nobody has behind it."""
    of_rows = _of_rows(kernel.loop.loads, kernel)
    others = [load_text(a, kernel.names) for a in kernel.loop.loads if a not in of_rows]
    if kernel.stretches:
        return [*others, *stretch_places(kernel), *copied_stretches(kernel)]
    if not of_rows:
        return others
    declared = [f"{vector_type(a)} {a.name}_rows[{kernel.batch}];" for a in of_rows]
    taken = [f"{a.name}_rows[k] = {load_call(a, kernel.names)};" for a in of_rows]
    whole = when(["is_whole"], _rows(kernel, "k", taken))
    return [*others, *declared, *otherwise(whole, _rows(kernel, _near(kernel), taken))]


def _of_rows(loads: Iterable[VectorAccess], kernel: ColumnKernel) -> list[VectorAccess]:
    """Those that differ from row to row, or are left out of some."""
    return [a for a in loads if kernel.axes.row in a.bases]


def _near(kernel: ColumnKernel) -> str:
    """The k-th row of a thread, or the last one of its block's stretch or of the plane."""
    last = number(kernel.axes.row.size)
    is_there = "k < left" if kernel.stretches else f"start + k < {last}"
    return f"{is_there} ? k : {'left' if kernel.stretches else f'{last} - start'} - 1"


def _added_up(kernel: ColumnKernel, ahead: Scope) -> list[str]:
    """What a thread's rows come to, of which those behind the last one are not read."""
    near = _of_batch(kernel, ahead, ahead.loads, place=_near(kernel))
    if not kernel.stretches:
        return near
    return otherwise(when(["is_whole"], _of_whole(kernel, ahead)), near)


def _of_whole(kernel: ColumnKernel, scope: Scope) -> list[str]:
    """What a scope does with the rows of a thread that has as many as any."""
    if kernel.run == 1:
        return _of_batch(kernel, scope, scope.loads)
    own = [s for s in kernel.stretches if s.access in (*scope.loads, *scope.stores)]
    staged = {s.access.name for s in own}
    beside = [a for a in _of_rows(scope.loads, kernel) if a.name not in staged]
    row = _row(kernel, f"start + k * {kernel.run} + j")
    begun = [f"[[maybe_unused]] {row}", *(load_text(a, kernel.names) for a in beside)]
    lines = lane_lines(scope.statements, (), kernel.names, kernel.axes.lanes)
    runs = runs_text(own, kernel, begun, lines)
    return unrolled(f"for (int k = 0; k < {kernel.batch // kernel.run}; ++k)", runs, 1)


def _rows(kernel: ColumnKernel, place: str, lines: Sequence[str]) -> list[str]:
    """What is done for each row of the batch, of which the k-th is at a place in it."""
    own = _row(kernel, "start + k" if place == "k" else f"start + ({place})")
    if not kernel.stretches:
        return each("k", kernel.batch, [own, *lines])
    head = f"for (int k = 0; k < {kernel.batch}; ++k)"
    return unrolled(head, [f"[[maybe_unused]] {own}", *lines], TAKEN)


def _row(kernel: ColumnKernel, place: str) -> str:
    row = f"{number(kernel.axes.row.size)} - 1 - ({place})" if kernel.is_reversed else place
    return f"const {index_type(kernel.reach)} row = {row};"


def _of_batch(
    kernel: ColumnKernel,
    scope: Scope,
    loads: Sequence[VectorAccess],
    *tests: str,
    place: str = "k",
) -> list[str]:
    """What a scope does with each row of the batch, the k-th or that at another `place`."""
    of_rows = _of_rows(loads, kernel)
    lanes, names = kernel.axes.lanes, kernel.names
    if not kernel.stretches:
        given = [f"const auto {a.name} = {a.name}_rows[k];" for a in of_rows]
        done = lane_lines(scope.statements, scope.stores, names, lanes)
        return _rows(kernel, place, when(tests, [*given, *done]))
    staged = {s.access.name: s for s in kernel.stretches}
    given = [place_in_stretches(kernel, f"({place})")]
    given += [taken(staged[a.name]) if a.name in staged else load_text(a, names) for a in of_rows]
    filled = {a.name: a for a in scope.stores if a.name in staged}
    given += [f"{vector_type(a)} {a.name};" for a in filled.values()]
    direct = [a for a in scope.stores if a.name not in staged]
    done = lane_lines(scope.statements, direct, names, lanes)
    done += [put(staged[name]) for name in filled]
    return _rows(kernel, place, when(tests, [*given, *done]))


def _met(kernel: ColumnKernel) -> list[str]:
    """What the threads before this one add up to, and what all of the block do."""
    own = {t: _part_of(t, "part", kernel) for t in kernel.carried}
    shown = ((place, _own(t)) for t, place in own.items())
    taken = ((_own(t), place) for t, place in own.items())
    met = [_scanned(t, f"{t.name}_parts", kernel) for t in kernel.carried]
    return [*_given(kernel, shown), "__syncthreads();", *met, *_given(kernel, taken)]


def _scanned(total: Accumulator, parts: str, kernel: ColumnKernel) -> str:
    combine = combiner(total.op, total.dtype)
    start = identity(total.op, total.dtype)
    are_few = kernel.row_width * WARP <= kernel.threads and kernel.threads_down > WARP
    scan = "scan_by_warps" if are_few and total.op.state_size == 1 else "scan_parts"
    return f"tf::{scan}<{kernel.threads}>({parts}, {start}, {combine});"


def _told(kernel: ColumnKernel, split: Split) -> list[str]:
    """What lies before the block, and what it leaves for those behind it: what it adds up to, at
    once, but the last of a window what lies before it too. What its window comes to it knows when
    it is told what lies before that, so that from window to window no more than that is awaited."""
    parts = number(split.parts)
    wholes = {t: _part_of(t, str(kernel.threads_down), kernel) for t in kernel.carried}
    passed = {t: _combined(t, _ahead(t), whole) for t, whole in wholes.items()}
    gone_on = ((_own(t), _combined(t, _ahead(t), _own(t))) for t in kernel.carried)
    window = kernel.window
    is_awaited = "first + 1 + int(threadIdx.x) <= split"
    return [
        *parts_of(kernel.carried, split),
        f"unsigned* const marks = {TICKETS} + {COUNTED} + group * {parts};",
        f"const int first = split < {window} ? 1 : split - split % {window};",
        f"const bool is_passed = split % {window} == {window - 1};",
        *when([f"split + 1 < {parts}", "!is_passed"], _leave(kernel, wholes)),
        *when([is_awaited], ["tf::await_mark(marks + first + 1 + threadIdx.x);"]),
        "__syncthreads();",
        *_asked(kernel),
        *when(["threadIdx.x == 0", "first <= split"], ["tf::await_mark(marks + first);"]),
        "__syncthreads();",
        *when(["first <= split"], _given(kernel, _from_first(kernel))),
        *when([f"split + 1 < {parts}", "is_passed"], _leave(kernel, passed)),
        *_given(kernel, gone_on),
    ]


def _from_first(kernel: ColumnKernel) -> Iterator[tuple[str, str]]:
    """What lies before the block: what was left for the first of its window, and by the others."""
    for t in kernel.carried:
        yield _ahead(t), _combined(t, _left_by("first", t, kernel), _ahead(t))


def _leave(kernel: ColumnKernel, values: Mapping[Accumulator, str]) -> list[str]:
    """Values of each column in the workspace, and the mark that they are there."""
    left = ((_left_by("split + 1", t, kernel), value) for t, value in values.items())
    by_some = when(["part == 0"], _given(kernel, left))
    return [*by_some, "__syncthreads();", *by_first_thread(["tf::mark(marks + split + 1);"])]


def _asked(kernel: ColumnKernel) -> list[str]:
    """What the blocks of the window left but the first of them, by each of the threads of a column
    of some of them."""
    lanes, down, carried = kernel.axes.lanes, kernel.threads_down, kernel.carried
    declared = [f"{state_type(t.op, t.dtype)} {t.name}_ahead[{lanes}];" for t in carried]
    cleared = ((_ahead(t), identity(t.op, t.dtype)) for t in carried)
    taken = ((_ahead(t), _combined(t, _ahead(t), _left_by("other", t, kernel))) for t in carried)
    head = f"for (int other = first + 1 + part; other <= split; other += {down})"
    lines = [*declared, *_given(kernel, cleared)]
    lines += unrolled(head, _given(kernel, taken), AT_ONCE)
    shown = ((_asked_of(t, "part", kernel), _ahead(t)) for t in carried)
    known = ((_ahead(t), _asked_of(t, str(down), kernel)) for t in carried)
    met = [_scanned(t, f"{t.name}_asked", kernel) for t in carried]
    return [*lines, *_given(kernel, shown), "__syncthreads();", *met, *_given(kernel, known)]


def _stored(kernel: ColumnKernel) -> list[str]:
    """Each row again, from what lies before it on: as wide integers the compiler would keep what
    it converted before, and spill it."""
    loop, last = kernel.loop, number(kernel.axes.row.size)
    whole = _of_whole(kernel, loop)
    tested = _of_batch(kernel, loop, loop.loads, f"start + k < {last}")
    wide = any(total.itemsize > REGISTER_BYTES for total in kernel.carried)
    kept = _of_rows(loop.loads, kernel) if wide and not kernel.stretches else []
    renewed = each("k", kernel.batch, [f"tf::renew({a.name}_rows[k]);" for a in kept])
    stored = when(["is_there"], [*renewed, *otherwise(when(["is_whole"], whole), tested)])
    return [*stored, *stored_stretches(kernel)]


def _ended(kernel: ColumnKernel) -> list[str]:
    """What is done once per vector of columns, by the thread that has the last row."""
    if not kernel.final.statements:
        return []
    lanes, sums, rows = kernel.axes.lanes, kernel.sums, number(kernel.axes.row.size)
    declared = [f"{COMPUTE_TYPES[t.dtype]} {t.name}_row[{lanes}];" for t in sums]
    results = ((f"{t.name}_row[lane]", finished(t.op, t.dtype, _own(t))) for t in sums)
    lines = [*declared, *_given(kernel, results), *scope_lines(kernel.final, kernel.names, lanes)]
    return when(["is_there", f"start < {rows}", f"start + {kernel.batch} >= {rows}"], lines)


def _cleared(kernel: ColumnKernel, split: Split) -> list[str]:
    """The marks as they were, by the last block that has awaited some."""
    marks = number(split.groups * split.parts)
    last = f"tf::is_last_warp({TICKETS} + 1, {number(kernel.blocks)})"
    head = f"for (int k = threadIdx.x; k < {marks}; k += 32)"
    clear = block(head, [f"{TICKETS}[{COUNTED} + k] = 0;"])
    return when(["threadIdx.x < 32", last], clear)


def _given(kernel: ColumnKernel, values: Iterable[tuple[str, str]]) -> list[str]:
    """Each place of a lane, and the value that it gets."""
    lanes = kernel.axes.lanes
    return [line for place, value in values for line in per_lane(f"{place} = {value};", lanes)]


def _own(total: Accumulator) -> str:
    """What the thread adds up, or has added up so far."""
    return f"{total.name}_part[lane]"


def _ahead(total: Accumulator) -> str:
    """What lies before the block."""
    return f"{total.name}_ahead[lane]"


def _part_of(total: Accumulator, part: str, kernel: ColumnKernel) -> str:
    return f"{total.name}_parts[{part}][lane * {kernel.threads_across} + place]"


def _asked_of(total: Accumulator, part: str, kernel: ColumnKernel) -> str:
    return f"{total.name}_asked[{part}][lane * {kernel.threads_across} + place]"


def _left_by(split: str, total: Accumulator, kernel: ColumnKernel) -> str:
    """What the block before a split left of a lane."""
    block = f"(group * {number(kernel.splits)} + {split}) * {kernel.axes.lanes}"
    return f"{total.name}_splits[({block} + lane) * {kernel.threads_across} + place]"


def _combined(total: Accumulator, left: str, right: str) -> str:
    return combining(total.op, total.dtype, left, right)
