"""The column kernel's body as C++ text."""

from __future__ import annotations

from dataclasses import replace

from thunder_fuser.codegen.blocks import block, each, per_lane, unrolled, when
from thunder_fuser.codegen.chain_text import chain_lines
from thunder_fuser.codegen.column_sums import (
    cleared,
    declared_sums,
    places_lines,
    result_lines,
    shared_sums,
    whole,
)
from thunder_fuser.codegen.pieces_text import rows_of_pieces
from thunder_fuser.codegen.split_text import combining, parts_of
from thunder_fuser.codegen.statements import (
    INNER,
    NOT_KNOWN,
    lane_lines,
    load_call,
    load_text,
    number,
    scope_lines,
    vector_type,
)
from thunder_fuser.codegen.terms_text import Terms, at_once
from thunder_fuser.codegen.types import COMPUTE_TYPES, index_type
from thunder_fuser.kernel.column_ir import ColumnKernel, Delay
from thunder_fuser.kernel.divisors import DIVISOR
from thunder_fuser.kernel.scopes import Accumulator
from thunder_fuser.kernel.split_ir import TICKETS, Split, split_of
from thunder_fuser.kernel.statements import Hold

UNROLL = 4  # rows, or parts of a column, whose loads are in flight together
MAX_TAKEN = 512  # bytes of parts in flight: of more a thread of 80 registers spilled some
UPWARDS = 2  # rows of a thread that walks up, whose loads are on their way
SCAN_UNROLL = 8  # rows of running sums, of which a thread has no more


def column_lines(kernel: ColumnKernel) -> list[str]:
    """The statements of the entry point."""
    if kernel.ahead is not None:
        return chain_lines(kernel, kernel.ahead)
    lines = [*_places(kernel), *declared_sums(kernel.carried, kernel)]
    lines += [*_walk(kernel), *shared_sums(kernel.sums, kernel)]
    if (split := split_of(kernel)) is not None:
        lines += _meet(kernel, split)
    if not kernel.final.statements:
        return lines
    is_first = ["part == 0"] if kernel.threads_down > 1 else []
    final = [line for total in kernel.sums for line in result_lines(total, kernel)]
    final += scope_lines(kernel.final, kernel.names, kernel.axes.lanes)
    return [*lines, *_if_there(kernel, final, *is_first)]


def _if_there(kernel: ColumnKernel, lines: list[str], *others: str) -> list[str]:
    """What threads do that have a vector of columns."""
    return when([f"vector < {number(kernel.axes.vector.size)}", *others], lines)


def _places(kernel: ColumnKernel) -> list[str]:
    """Which vector of columns a thread has, and its part of the rows."""
    across, kind = kernel.threads_across, index_type(kernel.reach)
    lines = places_lines(kernel)
    if kernel.splits == 1:
        return [*lines, f"const {kind} vector = ({kind})blockIdx.x * {across} + place;"]
    tiles = number(kernel.tiles)
    return [
        *lines,
        f"const int group = blockIdx.x % {tiles};",
        f"const int split = blockIdx.x / {tiles};",
        f"const {kind} vector = ({kind})group * {across} + place;",
    ]


def _walk(kernel: ColumnKernel) -> list[str]:
    """The thread's rows, one after another."""
    kind, rows, down = index_type(kernel.reach), number(kernel.axes.row.size), kernel.threads_down
    if lines := _rows_of_vector(kernel, kind):
        rows = "rows"
    first, last = "part", rows
    if kernel.splits > 1:
        first = "first + part"
        begin = str(down) if kernel.are_rows_dealt else number(kernel.rows_per_split)
        lines.append(f"const {kind} first = ({kind})split * {begin};")
        if not kernel.are_rows_dealt:
            end = f"first + {number(kernel.rows_per_split)}"
            lines.append(f"const {kind} last = {end} < {rows} ? {end} : {rows};")
            last = "last"
    walked = [*_prepared(kernel), *_rows(kernel, first, last), *_end(kernel, kind)]
    return [*lines, *_if_there(kernel, walked)]


def _rows(kernel: ColumnKernel, first: str, last: str) -> list[str]:
    if kernel.pieces is not None:
        return rows_of_pieces(kernel, kernel.pieces, first, last)
    loop = _upwards if kernel.delays else _one_by_one if kernel.batch == 1 else _in_batches
    return loop(kernel, first, last)


def _prepared(kernel: ColumnKernel) -> list[str]:
    """The divisors and costly values that all rows have in common."""
    if kernel.prepared is None:
        return []
    lanes = kernel.axes.lanes
    held = [s.place for s in kernel.prepared.statements if isinstance(s, Hold)]
    arrays = [(place.name.split("[")[0], COMPUTE_TYPES[place.dtype]) for place in held]
    declared = (
        f"{'tf::Divisor' if name.endswith(DIVISOR) else kind} {name}[{lanes}];"
        for name, kind in arrays
    )
    return [*declared, *scope_lines(kernel.prepared, kernel.names, lanes)]


def _rows_of_vector(kernel: ColumnKernel, kind: str) -> list[str]:
    """How many rows have the whole of a vector, where the plane ends in the last one."""
    axes = kernel.axes
    if axes.elements is None:
        return []
    before, rows = number(axes.vectors_of_last), number(axes.row.size)
    return [f"const {kind} rows = vector < {before} ? {rows} : {rows} - 1;"]


def _end(kernel: ColumnKernel, kind: str) -> list[str]:
    """The vector in which the plane ends, by one thread."""
    if kernel.end is None:
        return []
    scope, axes = kernel.end, kernel.axes
    if kernel.batch > 1:  # what columns have one of is loaded before the rows
        scope = replace(scope, loads=tuple(a for a in scope.loads if axes.row in a.bases))
    tests = [f"vector == {number(axes.vectors_of_last)}"]
    tests += ["part == 0"] if kernel.threads_down > 1 else []
    tests += ["split == 0"] if kernel.splits > 1 else []
    lines = scope_lines(scope, kernel.names, axes.lanes)
    row = f"const {kind} row = {number(axes.row.size)} - 1;"
    return when(tests, [row, *(line.replace(INNER, NOT_KNOWN) for line in lines)])


def _step(kernel: ColumnKernel, rows: int = 1) -> str:
    """From one row of a thread to another, so many of its rows on."""
    down = kernel.threads_down * rows
    return f"{number(kernel.splits)} * {down}" if kernel.are_rows_dealt else f"{down}"


def _one_by_one(kernel: ColumnKernel, first: str, last: str) -> list[str]:
    """The thread's rows, each loaded and summed."""
    kind = index_type(kernel.reach)
    head = f"for ({kind} row = {first}; row < {last}; row += {_step(kernel)})"
    if kernel.is_reversed:
        head = f"for ({kind} row = {number(kernel.axes.row.size)} - 1; row >= 0; --row)"
    row = scope_lines(kernel.loop, kernel.names, kernel.axes.lanes)
    return unrolled(head, row, SCAN_UNROLL if kernel.scans else UNROLL)


def _upwards(kernel: ColumnKernel, first: str, last: str) -> list[str]:
    """The thread's rows, which follow each other, from the last to the first. Those behind them
    that keep something for them come before."""
    assert kernel.behind is not None
    kind, names, lanes = index_type(kernel.reach), kernel.names, kernel.axes.lanes
    scopes, row, own = (kernel.behind, kernel.loop), kernel.axes.row, number(kernel.rows_per_thread)
    once = dict.fromkeys(a for scope in scopes for a in scope.loads if row not in a.bases)
    moved = (replace(s, loads=tuple(a for a in s.loads if a not in once)) for s in scopes)
    behind, loop = (scope_lines(scope, names, lanes) for scope in moved)
    far = max(delay.rows for delay in kernel.delays)
    behind = [f"if (row >= {number(row.size)}) continue;", *behind]
    return [
        *(load_text(access, names) for access in once),
        *(line for delay in kernel.delays for line in _declared(delay, lanes)),
        f"const {kind} begin = {first} * {own};",
        f"const {kind} end = begin + {own} < {last} ? begin + {own} : {last};",
        *block(f"for ({kind} row = end + {far - 1}; row >= end; --row)", behind),
        *unrolled(f"for ({kind} row = end - 1; row >= begin; --row)", loop, UPWARDS),
    ]


def _declared(delay: Delay, lanes: int) -> list[str]:
    """The array of what rows keep: where a sample ends, they need none of it."""
    name, kind = f"{delay.name}_ago", COMPUTE_TYPES[delay.dtype]
    cleared = (f"{name}[{k}][lane] = 0;" for k in range(delay.rows))
    return [
        f"{kind} {name}[{delay.rows}][{lanes}];",
        *(line for each in cleared for line in per_lane(each, lanes)),
    ]


def _in_batches(kernel: ColumnKernel, first: str, last: str) -> list[str]:
    """The thread's rows, a batch at a time. Batches of running sums have many rows and no tests but
    in the last one: a thread has seven predicates, and would wait for those loads first. Nor have
    those whose rows are added at once, and of integers, of which a maximum takes three instructions
    more where it stands alone."""
    kind, step = index_type(kernel.reach), _step(kernel, kernel.batch)
    end = _step(kernel, kernel.batch - 1)
    row, tested = kernel.axes.row, _batch(kernel, last)
    others = [load_text(a, kernel.names) for a in kernel.loop.loads if row not in a.bases]
    are_tested = all(total.dtype.is_floating and not total.op.steps for total in kernel.sums)
    if are_tested and not kernel.scans:
        head = f"for ({kind} start = {first}; start < {last}; start += {step})"
        return [*others, *block(head, tested)]
    of_batches = kernel.splits * kernel.threads_down * kernel.batch
    is_divided = row.size % of_batches == 0 and kernel.axes.elements is None
    return [
        *others,
        f"{kind} start = {first};",
        *block(f"for (; start + {end} < {last}; start += {step})", _batch(kernel, None)),
        *([] if is_divided else when([f"start < {last}"], tested)),
    ]


def _batch(kernel: ColumnKernel, last: str | None) -> list[str]:
    """A batch of rows, none of which is behind `last`. All loads stand before what is computed: a
    compiler that may choose saves registers, and waits for each load."""
    kind, names = index_type(kernel.reach), kernel.names
    scope, lanes = kernel.loop, kernel.axes.lanes
    terms = Terms(scope.statements)
    if last is None:
        terms = at_once(scope.statements, f"[{lanes}][{kernel.batch}]", "[k]")
    loads = [a for a in scope.loads if kernel.axes.row in a.bases]
    declared = [f"{vector_type(a)} {a.name}_rows[{kernel.batch}];" for a in loads]
    taken = [f"{a.name}_rows[k] = {load_call(a, names)};" for a in loads]
    given = [f"const auto {a.name} = {a.name}_rows[k];" for a in loads]
    summed = lane_lines(terms.statements, scope.stores, names, lanes)
    added = [line for each_lane in terms.added for line in per_lane(each_lane, lanes)]
    place, test = f"start + k * {_step(kernel)}", f"row < {last}"
    if kernel.is_reversed:
        place, test = f"{number(kernel.axes.row.size)} - 1 - ({place})", "row >= 0"

    def of_batch(lines: list[str]) -> list[str]:
        tested = when([] if last is None else [test], lines)
        return each("k", kernel.batch, [f"const {kind} row = {place};", *tested])

    left = of_batch([*given, *summed])
    return [*declared, *of_batch(taken), *terms.declared, *left, *added]


def _meet(kernel: ColumnKernel, split: Split) -> list[str]:
    """What the block sums goes to global memory; the last block of a group of columns goes on, with
    all parts combined as its own."""
    lanes, parts = kernel.axes.lanes, number(split.parts)

    def left_by(total: Accumulator, block: str) -> str:
        place = f"((group * {parts} + {block}) * {lanes} + lane) * {kernel.threads_across} + place"
        return f"{total.name}_splits[{place}]"

    leave, clear, take = list[str](), list[str](), list[str]()
    for total in kernel.sums:
        part = f"{total.name}_part[lane]"
        leave += per_lane(f"{left_by(total, 'split')} = {whole(total, kernel)};", lanes)
        clear += per_lane(cleared(total), lanes)
        value = combining(total.op, total.dtype, part, left_by(total, "other"))
        take += per_lane(f"{part} = {value};", lanes)
    head = f"for (int other = part; other < {parts}; other += {kernel.threads_down})"
    return [
        *parts_of(kernel.sums, split),
        *when(["part == 0"], leave),
        "__shared__ bool is_last;",
        f"if (!tf::is_last(is_last, {TICKETS} + group, {parts})) return;",
        *clear,
        *unrolled(head, take, _parts_at_once(kernel)),
        *shared_sums(kernel.sums, kernel),
    ]


def _parts_at_once(kernel: ColumnKernel) -> int:
    """Blocks whose parts a thread of the last one loads together."""
    loaded = sum(total.itemsize for total in kernel.sums) * kernel.axes.lanes * UNROLL
    return UNROLL if loaded <= MAX_TAKEN else UNROLL // 2
