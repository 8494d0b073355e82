"""The row kernel's body as C++ text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from thunder_fuser.analysis.digits import loads_in
from thunder_fuser.codegen.blocks import block, enclosed, function, otherwise, per_element, when
from thunder_fuser.codegen.count_text import begun_counts, counted, ended_counts
from thunder_fuser.codegen.edge_text import edge_loads, edge_of_row, edge_scope
from thunder_fuser.codegen.near_text import where_near
from thunder_fuser.codegen.pair_text import declared_pairs, taken_in_pairs, unpaired
from thunder_fuser.codegen.reduce_text import (
    combined,
    declared,
    mailboxes,
    met,
    of_rows_that_meet,
    scanned,
    within_warps,
)
from thunder_fuser.codegen.row_loops import (
    load_of_row,
    located,
    over_vectors,
    vector_of_thread,
    with_whole,
)
from thunder_fuser.codegen.row_threads import (
    if_active,
    rows_of_thread,
    side_of_turn,
    turns_of_group,
    turns_text,
)
from thunder_fuser.codegen.shared_text import SHARED
from thunder_fuser.codegen.side_text import met_sides, turns_of_sides
from thunder_fuser.codegen.slot_text import (
    await_gathered,
    brought,
    gather_rows,
    in_slot,
    send_row,
    slot_arrays,
    stow_weights,
)
from thunder_fuser.codegen.split_text import identity, state_type
from thunder_fuser.codegen.staged_text import filled_lines, filling, staged_lines, taken
from thunder_fuser.codegen.statements import (
    INNER,
    NOT_KNOWN,
    WHOLE,
    lane_lines,
    load_call,
    load_text,
    number,
    renewed,
    statement_text,
    vector_type,
)
from thunder_fuser.codegen.stretch_text import taken_once, turns_of_stretches
from thunder_fuser.codegen.tail_text import with_tail
from thunder_fuser.codegen.terms_text import Terms, at_once
from thunder_fuser.codegen.types import COMPUTE_TYPES, index_type
from thunder_fuser.kernel.pairs import beside_pairs
from thunder_fuser.kernel.row_ir import Drawn, Reduce, ReducePhase, RowKernel, Scan
from thunder_fuser.kernel.scopes import Accumulator, Pairs, Scope
from thunder_fuser.kernel.split_ir import Split, split_of
from thunder_fuser.kernel.statements import Assign, ReadVector, VectorAccess


def row_lines(kernel: RowKernel) -> list[str]:
    """The statements of the entry point."""
    if kernel.is_side_by_side:
        return [*rows_of_thread(kernel), *_walk_side_by_side(kernel)]
    if kernel.sums:
        return [*rows_of_thread(kernel), *_walk(kernel)]
    split = split_of(kernel)
    if split is not None:
        row = _part_of_row(kernel, split)
    else:
        row = _chunks_of_row(kernel) if kernel.chunk else _one_row(kernel)
    head = [*rows_of_thread(kernel), *edge_of_row(kernel), *mailboxes(kernel)]
    return with_tail([*head, *row], kernel)


def _one_row(kernel: RowKernel) -> list[str]:
    """The row is on its way before an index that a tensor holds is waited for, unless it lies
    there."""
    if kernel.staged:
        kept = [*staged_lines(kernel), *_taken(kernel)]
        return [*kept, *located(kernel, "turn"), *_row(kernel), *filled_lines(kernel)]
    held, index = _loaded(kernel.kept, kernel), located(kernel, "turn")
    if kernel.slotted:
        sent = [*slot_arrays(kernel), "const int slot = 0;", *send_row(kernel, "slot", "turn")]
        held = [*sent, "tf::commit_copies();", *held]
    found = [*index, *held] if _is_taken(kernel) else [*held, *index]
    awaited = ["tf::await_copies<0>();"] if kernel.slotted else []
    return [*found, *_drawn(kernel), *awaited, *_row(kernel)]


def _taken(kernel: RowKernel) -> list[str]:
    """What a thread takes of the stretches in shared memory, and of what lies in none."""
    of_rows = [taken(staged, kernel) for staged in kernel.staged if staged.per_row > 1]
    names = {staged.access.name for staged in kernel.staged}
    others = [a for a in kernel.kept if a.name not in names]
    of_rows += [f"{a.name}[k] = {load_of_row(a, kernel)};" for a in others]
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
        *once_lines(phase.scope, kernel),
        *declared(phase.reductions),
        *_loaded(kernel.kept, kernel),
        *_reduced(phase, kernel),
        *met(phase.reductions, kernel, split),
        *combined(phase.reductions, kernel),
        *single_lines(kernel),
    ]


def _chunks_of_row(kernel: RowKernel) -> list[str]:
    """The row, some vectors of each thread at a time; scans go on from what they came to. The next
    vectors are on their way meanwhile, unless what follows the scans needs these."""
    (phase,) = kernel.phases
    step, size = kernel.chunk * kernel.threads, number(kernel.vector.size)
    kind = index_type(kernel.reach)
    start, move, there = "0", f"+ {step}", f"< {size}"
    if any(scan.reverse for scan in phase.scans):
        start, move, there = f"({size} - 1) / {step} * {step}", f"- {step}", ">= 0"
    loads, is_ahead = _vectors_loaded(kernel.kept, kernel), not _are_read_behind(kernel)
    own = [f"const {kind} first = next;", *loads]
    turn = [
        *([] if is_ahead else loads),
        *(line for scan in phase.scans for line in _zeroed(scan, kernel)),
        *_reduced(phase, kernel),
        f"const {kind} next = first {move};",
        *(when([f"next {there}"], own) if is_ahead else []),
        *(line for scan in phase.scans for line in scanned(scan, kernel)),
        *_walked(kernel.final, kernel),
        "first = next;",
        "__syncthreads();",  # what warps handed on was read
    ]
    return [
        *located(kernel, "turn"),
        *(load_text(a, kernel.names) for a in kernel.once),
        *once_lines(phase.scope, kernel),
        *once_lines(kernel.final, kernel),
        *declared(phase.reductions),
        *(
            f"{state_type(s.op, s.dtype)} {s.name}_so_far = {identity(s.op, s.dtype)};"
            for s in phase.scans
        ),
        f"{kind} first = {start};",
        *_declare(kernel.kept, kernel),
        *(loads if is_ahead else []),
        *block(f"while (first {there})", turn),
        *combined(phase.reductions, kernel),
        *single_lines(kernel),
    ]


def _are_read_behind(kernel: RowKernel) -> bool:
    """True where what follows the phases reads vectors of the row that are kept."""
    kept = {f"{a.name}[k]" for a in kernel.kept}
    values = (s.value for s in kernel.final.statements if isinstance(s, Assign))
    return any(isinstance(value, ReadVector) and value.vector in kept for value in values)


def _walk(kernel: RowKernel) -> list[str]:
    """The rows of a group, one after another, with sums down their columns."""
    turns, slots = turns_text(kernel), kernel.slots
    kind = index_type(kernel.reach)
    started = [*send_row(kernel, "slot", "slot"), "tf::commit_copies();"]
    from_slots = [f"{a.name}[k] = {in_slot(a, kernel)};" for a in kernel.kept]
    turn = [
        *_drawn(kernel),
        f"tf::await_copies<{slots - 1}>();",
        f"const int slot = turn % {slots};",
        *_declare(kernel.kept, kernel),
        *over_vectors(kernel, from_slots),
        *located(kernel, "turn"),
        *_row(kernel),
        *when([f"turn + {slots} < {turns}"], send_row(kernel, "slot", f"(turn + {slots})")),
        "tf::commit_copies();",
    ]
    return [
        *turns_of_group(kernel),
        *mailboxes(kernel),
        *begun_counts(kernel),
        *(line for accumulator in kernel.in_registers for line in _zeroed(accumulator, kernel)),
        *_loaded(kernel.fixed, kernel),
        *slot_arrays(kernel),
        *stow_weights(kernel),
        *gather_rows(kernel),
        *block(f"for (int slot = 0; slot < {slots}; ++slot)", started),
        *await_gathered(kernel),
        *(["tf::cluster_wait();"] if kernel.cluster > 1 else []),
        *block(f"for ({kind} turn = 0; turn < {turns}; ++turn)", turn),
        *ended_counts(kernel),
        *_walked(kernel.columns, kernel),
    ]


def _walk_side_by_side(kernel: RowKernel) -> list[str]:
    """The rows of a group, several at once, and the sums down their columns."""
    is_asked = kernel.axes.is_ragged and not kernel.has_idle
    wanted = [f"const {index_type(kernel.reach)} wanted = side;"] if is_asked else []
    return [
        *turns_of_group(kernel),
        *wanted,
        *begun_counts(kernel),
        *(line for accumulator in kernel.in_registers for line in _zeroed(accumulator, kernel)),
        *_loaded(kernel.fixed, kernel),
        *(_turns_of_stretches(kernel) if kernel.staged else _turns_of_rows(kernel)),
        *_summed(kernel),
    ]


def _summed(kernel: RowKernel) -> list[str]:
    """What follows from the sums down the columns: of all sides, or of each, in its own threads."""
    if not kernel.sums:
        return []
    columns = _walked(kernel.columns, kernel)
    if not kernel.axes.keeps_sides:
        return [*ended_counts(kernel), *met_sides(kernel, columns)]
    return if_active(kernel, columns) if kernel.has_idle else columns


def _turns_of_rows(kernel: RowKernel) -> list[str]:
    loads = [f"{a.name}_turns[b][k] = {load_of_row(a, kernel)};" for a in kernel.kept]
    places = [*side_of_turn(kernel, f"{WHOLE} || "), *located(kernel, "turn")]
    loaded = [*places, *over_vectors(kernel, loads)]
    turns = turns_of_sides(kernel, loaded, [*places, *_phases(kernel)])
    return [*turns, SHARED]


def _turns_of_stretches(kernel: RowKernel) -> list[str]:
    """What a row has one of and no stretch brings is on its way a turn ahead, unless it lies where
    a tensor says; what all rows have one of is there before the first."""
    side, turns = [*side_of_turn(kernel), *located(kernel, "turn")], turns_text(kernel)
    if kernel.located:
        once, first = [load_text(a, kernel.names) for a in kernel.once], list[str]()
    else:
        of_all = [a for a in kernel.once if a.bases.isdisjoint(kernel.axes.row.bases)]
        own = [a for a in kernel.once if a not in of_all]
        first = [load_text(a, kernel.names) for a in of_all]
        first += [line for a in own for line in _fetched(a, kernel)]
        once = [f"const auto {a.name} = {a.name}_next;" for a in own]
        more = [f"{a.name}_next = {a.name}_of(turn + 1);" for a in own]
        once += when([f"turn + 1 < {turns}"], more)
    row = [*_taken(kernel), *once, *_phases(kernel)]
    return [*first, *turns_of_stretches(kernel, turns, side, row)]


def _fetched(access: VectorAccess, kernel: RowKernel) -> list[str]:
    """How a row's own value is loaded, and that of the first turn."""
    turn, loaded = f"const {index_type(kernel.reach)} turn", load_call(access, kernel.names)
    return [
        *function(f"{access.name}_of", [turn], [*side_of_turn(kernel), f"return {loaded};"]),
        f"auto {access.name}_next = {access.name}_of(0);",
    ]


def _loaded(accesses: Sequence[VectorAccess], kernel: RowKernel) -> list[str]:
    """A thread's vectors in registers, from memory."""
    vectors = _vectors_loaded(accesses, kernel)
    return [*_declare(accesses, kernel), *vectors, *edge_loads(accesses, kernel)]


def _vectors_loaded(accesses: Sequence[VectorAccess], kernel: RowKernel) -> list[str]:
    loads = [f"{a.name}[k] = {load_of_row(a, kernel)};" for a in accesses]
    return with_whole(kernel, over_vectors(kernel, loads))


def _declare(accesses: Sequence[VectorAccess], kernel: RowKernel) -> list[str]:
    """Registers for the vectors of a thread."""
    return [f"{vector_type(a)} {a.name}[{kernel.places_per_thread}];" for a in accesses]


def _zeroed(accumulator: Accumulator | Scan, kernel: RowKernel) -> list[str]:
    kind = state_type(accumulator.op, accumulator.dtype)
    empty = identity(accumulator.op, accumulator.dtype)
    held, lanes = kernel.vectors_per_thread, kernel.lanes
    return [
        f"{kind} {accumulator.name}[{held}][{lanes}];",
        *per_element(f"{accumulator.name}[k][lane] = {empty};", held, lanes),
    ]


def _row(kernel: RowKernel) -> list[str]:
    """What is done for one row."""
    gathered = [f"const auto {a.name} = {a.name}_rows[turn];" for a in kernel.gathered]
    return [*gathered, *(load_text(a, kernel.names) for a in kernel.once), *_phases(kernel)]


def _drawn(kernel: RowKernel) -> list[str]:
    """Masks of a thread's vectors, though the last may be no vector of the row."""
    lines: list[str] = []
    for drawn in kernel.drawn:
        sizes = f"{kernel.vectors_per_thread}, {kernel.lanes}"
        bits = [vector_of_thread(kernel), f"tf::Mask<1, {kernel.lanes}> {Drawn.BITS};"]
        bits += [*scope_lines(drawn.scope, kernel), f"return {Drawn.BITS}.words[0];"]
        lines += once_lines(drawn.scope, kernel)
        *made, end = block(f"auto {drawn.held.name} = tf::drawn<{sizes}>([&](const int k)", bits)
        lines += [*made, f"{end});"]
    return lines


def _phases(kernel: RowKernel) -> list[str]:
    """What is done for a row of which the loads that do not depend on the vector are there."""
    lines: list[str] = []
    for position, phase in enumerate(kernel.phases):
        lines += _phase(phase, kernel, position)
    lines += [*brought(kernel), *once_lines(kernel.final, kernel)]
    final, unchosen = _finally(kernel.final, kernel), kernel.unchosen
    if unchosen is not None:
        lines += once_lines(unchosen.scope, kernel)
        tested = when([_may_have(unchosen.chosen)], final)
        final = otherwise(tested, _finally(unchosen.scope, kernel))
    lines += if_active(kernel, final)
    return lines + if_active(kernel, single_lines(kernel))


def _finally(scope: Scope, kernel: RowKernel) -> list[str]:
    return [*over_vectors(kernel, _final_lines(scope, kernel)), *edge_scope(scope, kernel)]


def _final_lines(scope: Scope, kernel: RowKernel) -> list[str]:
    """What is done for one vector after the phases. A block with rows to itself and sums down their
    columns in registers has one form of it: with another for vectors inside a row, rows of 4097
    took 128 us for 115."""
    lines = scope_lines(scope, kernel)
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
    return when(["part == 0"], text)


def once_lines(scope: Scope, kernel: RowKernel) -> list[str]:
    """What is computed before the vectors of a row."""
    return [statement_text(s, kernel.names) for s in scope.once]


def scope_lines(scope: Scope, kernel: RowKernel) -> list[str]:
    """What is done for one vector."""
    if not (scope.statements or scope.counts):
        return []
    lines = [_load(a, kernel) for a in scope.loads]
    lines += [counted(count, kernel) for count in scope.counts]
    return lines + lane_lines(scope.statements, scope.stores, kernel.names, kernel.lanes)


def _load(access: VectorAccess, kernel: RowKernel) -> str:
    """A vector, from its slot where it has one."""
    if access not in (*kernel.slotted, *kernel.stowed):
        return load_text(access, kernel.names, INNER)
    return f"const auto {access.name} = {in_slot(access, kernel)};"


def _walked(scope: Scope, kernel: RowKernel) -> list[str]:
    return [*over_vectors(kernel, scope_lines(scope, kernel)), *edge_scope(scope, kernel)]


def _reduced(phase: ReducePhase, kernel: RowKernel) -> list[str]:
    """What a thread's part of the row comes to."""
    scope = phase.scope
    loads = [_load(a, kernel) for a in scope.loads]

    def of_vectors(scope: Scope, pairs: Sequence[Pairs]) -> list[str]:
        terms = Terms(scope.statements)
        if kernel.lanes > 1:
            terms = at_once(scope.statements, f"[{kernel.lanes}]", "[lane]")
        lanes = scope_lines(replace(scope, loads=(), statements=terms.statements), kernel)
        lanes = [*terms.declared, *lanes, *terms.added]
        return over_vectors(kernel, [*loads, *taken_in_pairs(pairs), *lanes])

    return reduced(phase, kernel, of_vectors, edge_scope(scope, kernel))


def reduced(
    phase: ReducePhase,
    kernel: RowKernel,
    walk: Callable[[Scope, Sequence[Pairs]], list[str]],
    edges: Sequence[str] = (),
) -> list[str]:
    """What a phase does of a thread's vectors, where `walk` of a scope, and of what is taken in
    pairs beside it, is the text for all of them; and of its `edges`."""
    scope = beside_pairs(phase.scope, phase.pairs)
    walked = walk(scope, phase.pairs) if phase.pairs else where_near(scope, kernel, walk)
    behind = [statement_text(s, kernel.names) for r in phase.risen for s in r.statements]
    return [
        *declared([r.most for r in phase.risen]),
        *declared_pairs(phase.pairs),
        *walked,
        *edges,
        *unpaired(phase.pairs),
        *(enclosed(behind) if behind else []),
    ]


def held_arrays(phase: ReducePhase, vectors: int, lanes: int) -> list[str]:
    """The arrays of what a phase leaves for those behind it."""
    return [
        f"tf::Mask<{vectors}, {lanes}> {h.name};"
        if h.is_packed
        else f"{COMPUTE_TYPES[h.dtype]} {h.name}[{vectors}][{lanes}];"
        for h in phase.held
    ]


def _phase(phase: ReducePhase, kernel: RowKernel, position: int) -> list[str]:
    zeroed = [line for scan in phase.scans for line in _zeroed(scan, kernel)]
    held = held_arrays(phase, kernel.places_per_thread, kernel.lanes)
    summed = [line for scan in phase.scans for line in scanned(scan, kernel)]
    begun = [*once_lines(phase.scope, kernel), *declared(phase.reductions), *held, *zeroed]
    if phase.met is not None:
        terms = [statement_text(s, kernel.names) for s in phase.scope.statements]
        return [*begun, *terms, *of_rows_that_meet(phase, kernel)]
    terms = _reduced(phase, kernel)
    if phase.chosen:
        terms = when([_may_have(phase.chosen)], [*terms, *within_warps(phase.reductions, kernel)])
    converts = beside_pairs(phase.scope, phase.pairs).statements  # pairs are taken as they come
    return [
        *begun,
        *terms,
        *combined(phase.reductions, kernel, position, are_of_warps=bool(phase.chosen)),
        *summed,
        *(renewed(kernel.kept, kernel.places_per_thread) if kernel.renews and converts else []),
    ]


def _may_have(chosen: Sequence[Reduce]) -> str:
    """Whether one of a warp's elements may equal one of its row's extrema, or has to make a NaN."""
    beyond = {"max": "<", "min": ">"}
    tests = (f"!({r.accumulator.name} {beyond[r.op.name]} {r.result.name})" for r in chosen)
    return " || ".join(tests)
