"""The row kernel's body as C++ text."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.digits import loads_in
from thunder_fuser.codegen.reduce_text import combined, declared, mailboxes, met, scanned
from thunder_fuser.codegen.row_loops import is_whole, load_of_row, over_vectors, with_whole
from thunder_fuser.codegen.shared_text import SHARED, arrays_in_shared
from thunder_fuser.codegen.side_text import met_sides, turns_of_sides, turns_text
from thunder_fuser.codegen.split_text import identity, state_type
from thunder_fuser.codegen.staged_text import filled_lines, filling, staged_lines, taken
from thunder_fuser.codegen.statements import (
    INNER,
    NOT_KNOWN,
    WHOLE,
    block_text,
    copy_text,
    form_text,
    indent,
    lane_lines,
    load_call,
    load_text,
    number,
    statement_text,
    vector_type,
)
from thunder_fuser.codegen.stretch_text import taken_once, turns_of_stretches
from thunder_fuser.codegen.tail_text import with_tail
from thunder_fuser.codegen.types import COMPUTE_TYPES, index_type
from thunder_fuser.kernel.row_ir import Accumulator, ReducePhase, RowKernel, Scan, Scope
from thunder_fuser.kernel.split_ir import Split, split_of
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.target import WARP


def row_lines(kernel: RowKernel) -> list[str]:
    """The statements of the entry point."""
    if kernel.is_side_by_side:
        return [*_rows(kernel), *_walk_side_by_side(kernel)]
    if kernel.sums:
        return [*_rows(kernel), *_walk(kernel)]
    split = split_of(kernel)
    if split is not None:
        row = _part_of_row(kernel, split)
    else:
        row = _chunks_of_row(kernel) if kernel.chunk else _one_row(kernel)
    return with_tail([*_rows(kernel), *mailboxes(kernel), *row], kernel)


def _one_row(kernel: RowKernel) -> list[str]:
    """The row is on its way before an index that a tensor holds is waited for, unless it lies
    there."""
    if kernel.staged:
        kept = [*staged_lines(kernel), *_taken(kernel)]
        return [*kept, *located(kernel, "turn"), *_row(kernel), *filled_lines(kernel)]
    held, index = _loaded(kernel.kept, kernel), located(kernel, "turn")
    if kernel.slotted:
        sent = [*_slots(kernel), "const int slot = 0;", *_send(kernel, "slot", "turn")]
        held = [*sent, "tf::commit_copies();", *held]
    found = [*index, *held] if _is_taken(kernel) else [*held, *index]
    awaited = ["tf::await_copies<0>();"] if kernel.slotted else []
    return [*found, *awaited, *_row(kernel)]


def _taken(kernel: RowKernel) -> list[str]:
    """What a thread takes of the stretches in shared memory."""
    of_rows = [taken(staged, kernel) for staged in kernel.staged if staged.per_row > 1]
    once = [taken_once(staged) for staged in kernel.staged if staged.per_row == 1]
    return [*_declare(kernel.kept, kernel), *over_vectors(kernel, of_rows), *once]


def _is_taken(kernel: RowKernel) -> bool:
    """True where what is held of a row lies at an index that a tensor holds."""
    return any(loads_in(a.offset for a in (*kernel.kept, *kernel.slotted)))


def _part_of_row(kernel: RowKernel, split: Split) -> list[str]:
    """The block's part of a row, and the sums of all parts in the last block."""
    (phase,) = kernel.phases
    return [
        *located(kernel, "turn"),
        *(load_text(a, kernel.names) for a in kernel.once),
        *declared(phase.reductions),
        *_loaded(kernel.kept, kernel),
        *_walked(phase.scope, kernel),
        *met(phase.reductions, kernel, split),
        *combined(phase.reductions, kernel),
        *single_lines(kernel),
    ]


def _chunks_of_row(kernel: RowKernel) -> list[str]:
    """The row, some vectors of each thread at a time; scans go on from what they came to."""
    (phase,) = kernel.phases
    step, size = kernel.chunk * kernel.threads, number(kernel.vector.size)
    kind = index_type(kernel.reach)
    head = f"for ({kind} first = 0; first < {size}; first += {step}) {{"
    if any(scan.reverse for scan in phase.scans):
        start = f"({size} - 1) / {step} * {step}"
        head = f"for ({kind} first = {start}; first >= 0; first -= {step}) {{"
    turn = [
        *_loaded(kernel.kept, kernel),
        *(line for scan in phase.scans for line in _zeroed(scan, kernel)),
        *_walked(phase.scope, kernel),
        *(line for scan in phase.scans for line in scanned(scan, kernel)),
        *_walked(kernel.final, kernel),
        "__syncthreads();",  # what warps handed on was read
    ]
    return [
        *located(kernel, "turn"),
        *(load_text(a, kernel.names) for a in kernel.once),
        *declared(phase.reductions),
        *(
            f"{state_type(s.op, s.dtype)} {s.name}_so_far = {identity(s.op, s.dtype)};"
            for s in phase.scans
        ),
        head,
        *indent(turn),
        "}",
        *combined(phase.reductions, kernel),
        *single_lines(kernel),
    ]


def _walk(kernel: RowKernel) -> list[str]:
    """The rows of a group, one after another, with sums down their columns."""
    turns, slots = turns_text(kernel), kernel.slots
    kind = index_type(kernel.reach)
    started = [*_send(kernel, "slot", "slot"), "tf::commit_copies();"]
    from_slots = [f"{a.name}[k] = {_in_slot(a, kernel)};" for a in kernel.kept]
    turn = [
        f"tf::await_copies<{slots - 1}>();",
        f"const int slot = turn % {slots};",
        *_declare(kernel.kept, kernel),
        *over_vectors(kernel, from_slots),
        *located(kernel, "turn"),
        *_row(kernel),
        f"if (turn + {slots} < {turns}) {{",
        *indent(_send(kernel, "slot", f"(turn + {slots})")),
        "}",
        "tf::commit_copies();",
    ]
    return [
        *_turns_of_group(kernel),
        *mailboxes(kernel),
        *(line for accumulator in kernel.sums for line in _zeroed(accumulator, kernel)),
        *_loaded(kernel.fixed, kernel),
        *_slots(kernel),
        *_stow(kernel),
        f"for (int slot = 0; slot < {slots}; ++slot) {{",
        *indent(started),
        "}",
        *_gather(kernel),
        *(["tf::cluster_wait();"] if kernel.cluster > 1 else []),
        f"for ({kind} turn = 0; turn < {turns}; ++turn) {{",
        *indent(turn),
        "}",
        *_walked(kernel.columns, kernel),
    ]


def _turns_of_group(kernel: RowKernel) -> list[str]:
    """The turns for which there are rows, if groups differ in that: all blocks of a row have as
    many."""
    if not kernel.axes.is_uneven:
        return []
    axes, kind = kernel.axes, index_type(kernel.reach)
    first_side = {} if axes.side is None else {axes.side: "0"}
    last = form_text(axes.row, {**kernel.names, axes.turn: "(turns - 1)", **first_side})
    return [
        f"{kind} turns = {number(axes.turn.size)};",
        f"while ({last} >= {number(axes.rows)}) --turns;",
    ]


def _walk_side_by_side(kernel: RowKernel) -> list[str]:
    """The rows of a group, several at once, and the sums down their columns."""
    wanted = [f"const {index_type(kernel.reach)} wanted = side;"] if kernel.axes.is_ragged else []
    return [
        *_turns_of_group(kernel),
        *wanted,
        *(line for accumulator in kernel.sums for line in _zeroed(accumulator, kernel)),
        *_loaded(kernel.fixed, kernel),
        *(_turns_of_stretches(kernel) if kernel.staged else _turns_of_rows(kernel)),
        *_summed(kernel),
    ]


def _summed(kernel: RowKernel) -> list[str]:
    """What follows from the sums down the columns: of all sides, or of each, in its own threads."""
    if not kernel.sums:
        return []
    columns = _walked(kernel.columns, kernel)
    return _active(kernel, columns) if kernel.axes.keeps_sides else met_sides(kernel, columns)


def _turns_of_rows(kernel: RowKernel) -> list[str]:
    loads = [f"{a.name}_turns[b][k] = {load_of_row(a, kernel)};" for a in kernel.kept]
    places = [*_side(kernel, f"{WHOLE} || "), *located(kernel, "turn")]
    loaded = [*places, *over_vectors(kernel, loads)]
    turns = turns_of_sides(kernel, loaded, [*places, *_phases(kernel)])
    return [*turns, SHARED]


def _turns_of_stretches(kernel: RowKernel) -> list[str]:
    side = [*_side(kernel), *located(kernel, "turn")]
    row = [*_taken(kernel), *(load_text(a, kernel.names) for a in kernel.once), *_phases(kernel)]
    return turns_of_stretches(kernel, turns_text(kernel), side, row)


def _side(kernel: RowKernel, known: str = "") -> list[str]:
    """Which row of a turn the thread has, if some turns have fewer than sides: then the first one
    again, so that every thread of a warp takes part in the reductions. Where it is `known` that all
    have theirs, none asks."""
    axes, kind = kernel.axes, index_type(kernel.reach)
    if axes.side is None or not axes.is_ragged:
        return []
    row = form_text(axes.row, {**kernel.names, axes.side: "wanted"})
    return [
        f"const bool is_active = {known}{row} < {number(axes.rows)};",
        f"const {kind} side = is_active ? wanted : 0;",
    ]


def _loaded(accesses: Sequence[VectorAccess], kernel: RowKernel) -> list[str]:
    """A thread's vectors in registers, from memory."""
    loads = [f"{a.name}[k] = {load_of_row(a, kernel)};" for a in accesses]
    return [*_declare(accesses, kernel), *with_whole(kernel, over_vectors(kernel, loads))]


def _declare(accesses: Sequence[VectorAccess], kernel: RowKernel) -> list[str]:
    """Registers for the vectors of a thread."""
    return [f"{vector_type(a)} {a.name}[{kernel.vectors_per_thread}];" for a in accesses]


def _slots(kernel: RowKernel) -> list[str]:
    """Shared memory for rows and weights: each thread's vectors, which no other thread reads; and
    for what all threads read of each row."""
    places = [(a, "slots", kernel.slots * kernel.row_bytes(a)) for a in kernel.slotted]
    places += [(a, "slots", kernel.row_bytes(a)) for a in kernel.stowed]
    widest_first = sorted(kernel.gathered, key=lambda a: -a.dtype.itemsize)  # all are aligned
    places += [(a, "rows", kernel.gathered_bytes(a)) for a in widest_first]
    arrays = [(f"{a.name}_{held}", vector_type(a), size) for a, held, size in places]
    return arrays_in_shared(arrays) if arrays else []


def _stow(kernel: RowKernel) -> list[str]:
    """The weights of all rows to shared memory."""
    lines = [f"{_in_slot(a, kernel)} = {load_call(a, kernel.names)};" for a in kernel.stowed]
    return over_vectors(kernel, lines)


def _gather(kernel: RowKernel) -> list[str]:
    """What each row of the group has one of to shared memory, where all threads read it."""
    if not kernel.gathered:
        return []
    kind, turns = index_type(kernel.reach), turns_text(kernel)
    loads = [f"{a.name}_rows[turn] = {load_call(a, kernel.names)};" for a in kernel.gathered]
    head = f"for ({kind} turn = threadIdx.x; turn < {turns}; turn += {kernel.threads}) {{"
    return ["#pragma unroll 1", head, *indent(loads), "}", "__syncthreads();"]


def _place(kernel: RowKernel, slot: str) -> str:
    """The number of a thread's vector in the slots of an access."""
    return f"({slot} * {kernel.vectors_per_thread} + k) * {kernel.threads} + threadIdx.x"


def _send(kernel: RowKernel, slot: str, turn: str) -> list[str]:
    """Start to copy the row of that turn."""
    names = {**kernel.names, kernel.axes.turn: turn}
    copies = [
        copy_text(a, f"{a.name}_slots, {_place(kernel, slot)}", names, is_whole(a, kernel))
        for a in kernel.slotted
    ]
    lines = with_whole(kernel, over_vectors(kernel, copies), names)
    if not (kernel.located and kernel.sums):
        return lines
    return ["{", *indent([*located(kernel, turn), *lines]), "}"]


def located(kernel: RowKernel, turn: str) -> list[str]:
    """The indices that tensors hold for the row of that turn."""
    names = {**kernel.names, kernel.axes.turn: turn}
    return [statement_text(s, names) for s in kernel.located]


def _zeroed(accumulator: Accumulator | Scan, kernel: RowKernel) -> list[str]:
    kind = state_type(accumulator.op, accumulator.dtype)
    empty = identity(accumulator.op, accumulator.dtype)
    held, lanes = kernel.vectors_per_thread, kernel.lanes
    return [
        f"{kind} {accumulator.name}[{held}][{lanes}];",
        "#pragma unroll",
        f"for (int k = 0; k < {held}; ++k)",
        "#pragma unroll",
        f"  for (int lane = 0; lane < {lanes}; ++lane) {accumulator.name}[k][lane] = {empty};",
    ]


def _row(kernel: RowKernel) -> list[str]:
    """What is done for one row."""
    gathered = [f"const auto {a.name} = {a.name}_rows[turn];" for a in kernel.gathered]
    return [*gathered, *(load_text(a, kernel.names) for a in kernel.once), *_phases(kernel)]


def _phases(kernel: RowKernel) -> list[str]:
    """What is done for a row of which the loads that do not depend on the vector are there."""
    lines: list[str] = []
    for position, phase in enumerate(kernel.phases):
        lines += _phase(phase, kernel, position)
    lines += _active(kernel, over_vectors(kernel, _final_lines(kernel)))
    return lines + _active(kernel, single_lines(kernel))


def _final_lines(kernel: RowKernel) -> list[str]:
    """What is done for one vector after the phases. A block with rows to itself and sums down their
    columns in registers has one form of it: with another for vectors inside a row, rows of 4097
    took 128 us for 115."""
    lines = scope_lines(kernel.final, kernel)
    if kernel.filled:
        return filling(lines, kernel)
    if not kernel.sums or kernel.cluster > 1:
        return lines
    return [line.replace(INNER, NOT_KNOWN) for line in lines]


def single_lines(kernel: RowKernel) -> list[str]:
    """What the first thread of a row does after the phases."""
    if not kernel.single.statements:
        return []
    text = lane_lines(kernel.single.statements, kernel.single.stores, kernel.names, lanes=1)
    return ["if (part == 0) {", *indent(text), "}"]


def _rows(kernel: RowKernel) -> list[str]:
    """The rows of the thread, and its part of them. Where fewer rows are left than a block has, the
    last one is done again, so that every thread of a warp takes part in the reductions."""
    kind = index_type(max(kernel.reach, kernel.rows))
    block = block_text(kernel)
    wide = f"({kind}){block}" if kind != "int" else block
    if kernel.cluster > 1:
        return [
            f"const int rank = blockIdx.x % {kernel.cluster};",
            f"const int part = rank * {kernel.threads} + threadIdx.x;",
            f"const {kind} group = {wide} / {kernel.cluster};",
        ]
    if kernel.splits > 1:
        splits, share = number(kernel.splits), number(kernel.vectors_per_split)
        row, piece = f"{wide} / {splits}", f"{block} % {splits}"
        if kernel.are_parts_outermost:
            row, piece = f"{wide} % {number(kernel.rows)}", f"{block} / {number(kernel.rows)}"
        return [
            "const int part = threadIdx.x;",
            f"const {kind} group = {row};",
            f"const int split = {piece};",
            f"const {kind} first = {'' if kind == 'int' else f'({kind})'}split * {share};",
        ]
    if kernel.rows_per_block == 1:
        return ["const int part = threadIdx.x;", f"const {kind} group = {wide};"]
    threads, rows = kernel.threads_per_row, number(kernel.rows)
    if kernel.is_side_by_side:
        return [
            f"const int part = threadIdx.x % {threads};",
            *_sides(kernel, kind),
            f"const {kind} group = {wide};",
        ]
    return [
        f"const int part = threadIdx.x % {threads};",
        f"const {kind} wanted = {wide} * {kernel.rows_per_block} + threadIdx.x / {threads};",
        f"const bool is_active = wanted < {rows};",
        f"const {kind} group = is_active ? wanted : {rows} - 1;",
    ]


def _sides(kernel: RowKernel, kind: str) -> list[str]:
    """The row of a turn that the thread has; where warps have threads for more, the first again."""
    side = _side_of_thread(kernel)
    if not kernel.has_idle:
        return [f"const {kind} side = {side};"]
    return [
        f"const {kind} wanted = {side};",
        f"const bool is_active = wanted < {kernel.rows_per_block};",
        f"const {kind} side = is_active ? wanted : 0;",
    ]


def _side_of_thread(kernel: RowKernel) -> str:
    """The row of a turn that the thread has: neighbours in a warp are so far apart, and its rows
    between those of the next ones."""
    threads, apart = kernel.threads_per_row, kernel.apart
    if apart == 1:
        return f"threadIdx.x / {threads}"
    warp, own = f"threadIdx.x / {WARP}", f"threadIdx.x % {WARP} / {threads} * {apart}"
    return f"{warp} / {apart} * {WARP // threads * apart} + {own} + {warp} % {apart}"


def _active(kernel: RowKernel, lines: list[str]) -> list[str]:
    has_rest = kernel.axes.is_ragged or kernel.has_idle
    has_rest |= kernel.rows_per_block > 1 and not kernel.is_side_by_side
    if not has_rest or not lines:
        return lines
    return ["if (is_active) {", *indent(lines), "}"]


def scope_lines(scope: Scope, kernel: RowKernel) -> list[str]:
    """What is done for one vector."""
    if not scope.statements:
        return []
    lines = [_load(a, kernel) for a in scope.loads]
    return lines + lane_lines(scope.statements, scope.stores, kernel.names, kernel.lanes)


def _load(access: VectorAccess, kernel: RowKernel) -> str:
    """A vector, from its slot where it has one."""
    if access not in (*kernel.slotted, *kernel.stowed):
        return load_text(access, kernel.names, INNER)
    return f"const auto {access.name} = {_in_slot(access, kernel)};"


def _in_slot(access: VectorAccess, kernel: RowKernel) -> str:
    """A thread's vector k in the slot of the row, or of the weights."""
    slot = "0" if access in kernel.stowed else "slot"
    return f"{access.name}_slots[{_place(kernel, slot)}]"


def _walked(scope: Scope, kernel: RowKernel) -> list[str]:
    return over_vectors(kernel, scope_lines(scope, kernel))


def held_arrays(phase: ReducePhase, vectors: int, lanes: int) -> list[str]:
    """The arrays of what a phase leaves for those behind it."""
    return [f"{COMPUTE_TYPES[h.dtype]} {h.name}[{vectors}][{lanes}];" for h in phase.held]


def _phase(phase: ReducePhase, kernel: RowKernel, position: int) -> list[str]:
    zeroed = [line for scan in phase.scans for line in _zeroed(scan, kernel)]
    held = held_arrays(phase, kernel.vectors_per_thread, kernel.lanes)
    summed = [line for scan in phase.scans for line in scanned(scan, kernel)]
    walked = [*declared(phase.reductions), *held, *zeroed, *_walked(phase.scope, kernel)]
    return [*walked, *combined(phase.reductions, kernel, position), *summed]
