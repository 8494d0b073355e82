"""The kept column kernel's body as C++ text."""

from __future__ import annotations

from dataclasses import replace

from thunder_fuser.codegen.beside_text import (
    if_row,
    results_beside,
    row_of_thread,
    sums_beside,
)
from thunder_fuser.codegen.blocks import each, enclosed, unrolled, when
from thunder_fuser.codegen.cluster_text import ended, exchanged, ranks, received, tile_number
from thunder_fuser.codegen.column_sums import (
    declared_sums,
    own_line,
    places_lines,
    result_lines,
    shared_sums,
)
from thunder_fuser.codegen.image_text import image_lines
from thunder_fuser.codegen.met_text import columns_meet, neighbours, per_sample
from thunder_fuser.codegen.odd_text import (
    at_own_column,
    full_of_odd,
    loads_of_columns,
    odd_places,
    own_column,
)
from thunder_fuser.codegen.pair_text import declared_pairs, taken_in_pairs, unpaired
from thunder_fuser.codegen.shared_text import arrays_in_shared, run_bytes
from thunder_fuser.codegen.statements import (
    address,
    copy_text,
    load_call,
    load_text,
    number,
    renewed,
    scope_lines,
    store_call,
    vector_type,
)
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES, index_type
from thunder_fuser.kernel.kept_ir import KeptKernel, KeptPhase
from thunder_fuser.kernel.kept_values import OWN, of_row
from thunder_fuser.kernel.pairs import beside_pairs
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.schedule.strips import Strip

UNROLL = 4  # pieces of a strip whose loads are in flight together


def kept_lines(kernel: KeptKernel) -> list[str]:
    """The statements of the entry point."""
    if kernel.images is not None:
        return image_lines(kernel, kernel.images)
    turn = [*_places(kernel), *_turn(kernel)]
    first = [*places_lines(kernel), *ranks(kernel), *neighbours(kernel), *_in_shared(kernel)]
    if kernel.group is None:
        return [*first, *turn, *ended(kernel)]
    if kernel.walks:
        turn.append("__syncthreads();")  # until all have read what they shared
        head = f"for (int turn = 0; turn < {number(kernel.turns)}; ++turn)"
        turn = [*unrolled(head, turn, 1), *received(kernel)]
    return [
        *first,
        f"const {index_type(kernel.reach)} group = {tile_number(kernel)};",
        *sums_beside(kernel, kernel.rows_per_thread),
        *turn,
        *results_beside(kernel),
        *ended(kernel),
    ]


def _turn(kernel: KeptKernel) -> list[str]:
    """What a block does with a tile of columns."""
    names, lanes = kernel.names, kernel.axes.lanes
    lines, odd = [*_filled(kernel), *_loaded(kernel)], kernel.odd
    if odd is None:
        lines += [load_text(a, names) for a in kernel.once]
    else:
        lines += [load_text(a, names) for a in kernel.once if a.lane is None]
        lines += loads_of_columns(kernel, odd)
    lines += [*_own_loads(kernel), *_at_rows(kernel), *_awaited(kernel)]
    behind = [] if kernel.walks else received(kernel)
    stored = [*_final(kernel), *per_sample(kernel)]
    if kernel.samples_meet:  # first, so that no registers wait for it
        behind, stored = [*behind, *stored], []
    if kernel.full.statements:
        if odd is None:
            full = _over_rows(kernel, scope_lines(kernel.full, names, lanes))
            behind += _active(kernel, full)
        else:
            full = _over_rows(kernel, full_of_odd(kernel, odd))
            behind += _active(kernel, full, ["place > 0" if kernel.beside else "is_own"])
    behind += [*stored, *_emptied(kernel)]
    phases = [line for phase in kernel.phases for line in _phase(phase, kernel)]
    return [*lines, *phases, *behind]


def _at_rows(kernel: KeptKernel) -> list[str]:
    """What rows have one of, made by as many threads, where all find it."""
    found, kind, rows = kernel.at_rows, index_type(kernel.reach), number(kernel.axes.row.size)
    if found is None:
        return []
    size, vectors, lines = number(kernel.axes.vector.size), number(found.vectors), list[str]()
    count = rows if found.samples == 1 else f"{found.samples} * {rows}"
    body = [f"const {kind} row = {OWN};"]
    if found.samples > 1:
        first = f"({_first(kernel, kernel.threads_across)}) / {vectors}"
        lines = [
            f"const {kind} first_sample = {first};",
            f"const {kind} sample = (vector / {vectors} - first_sample) * {rows};",
        ]
        body = [
            f"const {kind} row = {OWN} % {rows};",
            f"const {kind} wanted = (first_sample + {OWN} / {rows}) * {vectors};",
            f"const {kind} vector = wanted < {size} ? wanted : {size} - 1;",
        ]
    room = [f"__shared__ {COMPUTE_TYPES[a.dtype]} {a.name}[{count}];" for a in found.arrays]
    head = f"for ({kind} {OWN} = threadIdx.x; {OWN} < {count}; {OWN} += {kernel.threads})"
    made = scope_lines(found.scope, kernel.names, lanes=1)
    return [*lines, *room, *unrolled(head, [*body, *made], 1), "__syncthreads();"]


def _own_loads(kernel: KeptKernel) -> list[str]:
    """What a thread needs at the end for the column that it has then, on its way meanwhile. Threads
    without one load that of another."""
    if not kernel.is_spread or not kernel.final.loads:
        return []
    if kernel.odd is not None:
        names = at_own_column(kernel, kernel.odd)
        return [load_text(a, names) for a in kernel.final.loads]
    names = kernel.names | {lane: "own" for lane in [kernel.axes.lane] if lane is not None}
    loads = [load_text(a, names) for a in kernel.final.loads]
    return [f"const int own = part % {kernel.axes.lanes};", *loads]


def _final(kernel: KeptKernel) -> list[str]:
    """What is done once a column, by the first of the threads that share it, or by one for each of
    its lanes."""
    names, lanes = kernel.names, kernel.axes.lanes
    if not kernel.final.statements:
        return []
    is_first = ["rank == 0"] if kernel.cluster > 1 else []
    if kernel.is_spread:
        if kernel.odd is not None:
            names = at_own_column(kernel, kernel.odd)
        text = scope_lines(replace(kernel.final, loads=()), names, lanes=1)
        sums = (total for phase in kernel.phases for total in phase.sums)
        known = [own_line(total, kernel) for total in sums if total.by_column]
        lines = ["const int lane = part;", *known, *text]
        is_there = f"part < {lanes}" if kernel.odd is None else "has_column"
        return _active(kernel, lines, [is_there, *is_first])
    is_first = [*(["part == 0"] if kernel.threads_down > 1 else []), *is_first]
    return _active(kernel, scope_lines(kernel.final, names, lanes), is_first)


def _places(kernel: KeptKernel) -> list[str]:
    """Which vector of columns a thread has. Threads beyond the last vector keep that as well, so
    that all take part in the sums."""
    if kernel.odd is not None:
        own = own_column(kernel.odd) if kernel.final.statements else []
        return [*odd_places(kernel, kernel.odd), *own]
    across, kind = kernel.threads_across, index_type(kernel.reach)
    size = number(kernel.axes.vector.size)
    lines, first = list[str](), _first(kernel, across)
    if kernel.is_uneven:
        lines = [f"const {kind} first = {first};", f"if (first >= {size}) break;"]
        first = "first"
    if not kernel.is_cut:
        return [*lines, f"const {kind} vector = {first} + place;"]
    return [
        *lines,
        f"const {kind} wanted = {first} + place;",
        f"const bool is_active = wanted < {size};",
        f"const {kind} vector = is_active ? wanted : {size} - 1;",
    ]


def _first(kernel: KeptKernel, width: int | str) -> str:
    """Where the tile of a turn, so many columns or vectors of them, begins: groups are side by
    side, each with some tiles."""
    if kernel.group is None:
        return f"({index_type(kernel.reach)}){tile_number(kernel)} * {width}"
    if not kernel.walks:
        return f"group * {width}"
    parts, tiles = number(kernel.parts), number(kernel.tiles)
    run, group = "turn" if kernel.tiles == 1 else f"turn / {tiles}", "group"
    if kernel.parts < kernel.group.size:
        runs = number(kernel.turns // kernel.tiles)
        run, group = f"(group / {parts} * {runs} + {run})", f"group % {parts}"
    if kernel.tiles == 1:
        return f"({run} * {parts} + {group}) * {width}"
    return f"(({run} * {parts} + {group}) * {tiles} + turn % {tiles}) * {width}"


def _in_shared(kernel: KeptKernel) -> list[str]:
    """Pointers to what lies in dynamic shared memory: strips, and sums over columns that meet."""
    turned, met = (*kernel.fills, *kernel.empties), kernel.beside if kernel.meets_in_shared else ()
    asked = [(a.name, CUDA_TYPES[a.dtype], kernel.bytes_of(a)) for a in turned]
    asked += [(f"{t.name}_met", COMPUTE_TYPES[t.dtype], kernel.met_bytes(t)) for t in met]
    strips = arrays_in_shared(asked) if asked else []
    if kernel.strip is None:
        return strips
    # Once: with all of it at each access the compiler spilled what it kept for the next ones.
    return [*strips, f"const int own_place = place * {kernel.strip.vector_step} + part;"]


def _filled(kernel: KeptKernel) -> list[str]:
    """What is turned before the phases."""
    if kernel.strip is None:
        return []
    fills = []
    for a in kernel.fills:
        slots = f"tf::Vec<{CUDA_TYPES[a.dtype]}, {a.length}>*"
        place = f"reinterpret_cast<{slots}>({_run(a, kernel.strip)})"
        fills.append(copy_text(a, place, "0", kernel.names))
    left = [f"{a.name}[own] = {a.pointer}[element];" for a in kernel.fills]
    return [*_over_pieces(kernel, fills), *_over_left(kernel, left)]


def _awaited(kernel: KeptKernel) -> list[str]:
    """Until the strips of all threads are filled."""
    if not kernel.fills:
        return []
    return ["tf::commit_copies();", "tf::await_copies<0>();", "__syncthreads();"]


def _emptied(kernel: KeptKernel) -> list[str]:
    """What was turned behind the phases."""
    if not kernel.empties or kernel.strip is None:
        return []
    lines = []
    for a in kernel.empties:
        move = f"tf::load<{CUDA_TYPES[a.dtype]}, {a.length}, {run_bytes(a)}>"
        lines.append(store_call(a, f"{address(a, kernel.names)}, {move}({_run(a, kernel.strip)})"))
    left = [f"{a.pointer}[element] = {a.name}[own];" for a in kernel.empties]
    return ["__syncthreads();", *_over_pieces(kernel, lines), *_over_left(kernel, left)]


def _over_pieces(kernel: KeptKernel, lines: list[str]) -> list[str]:
    """A loop over the thread's pieces of a block's columns, side by side along these."""
    if not lines or kernel.strip is None:
        return []
    strip, kind = kernel.strip, index_type(kernel.reach)
    pieces, width, start = number(strip.piece.size), number(strip.width), _first_piece(kernel)
    places = [
        f"const int own = n / {pieces};",
        f"const {kind} piece = n % {pieces};",
        f"const {kind} column = {start} + own;",
    ]
    inside = when([f"column < {number(strip.column.size)}"] if kernel.is_cut else [], lines)
    head = f"for (int n = threadIdx.x; n < {width} * {pieces}; n += {kernel.threads})"
    return unrolled(head, [*places, *inside], UNROLL)


def _over_left(kernel: KeptKernel, lines: list[str]) -> list[str]:
    """The elements behind the last whole run, in the block that has them."""
    strip, kind = kernel.strip, index_type(kernel.reach)
    if not lines or strip is None or not strip.left:
        return []
    first, held = number(strip.column.size * strip.run), number(strip.width * strip.run)
    start = f"({_first_piece(kernel)}) * {strip.run}"
    body = [
        f"const {kind} element = {first} + threadIdx.x;",
        f"const {kind} own = element - {start};",
        *when([f"threadIdx.x < {number(strip.left)}", f"own < {held}"], lines),
    ]
    return enclosed(body)


def _first_piece(kernel: KeptKernel) -> str:
    """The column of the strip that the tile of a turn begins with."""
    assert kernel.strip is not None
    width = kernel.strip.width
    return _first(kernel, number(width) if kernel.group is None else width)


def _run(access: VectorAccess, strip: Strip) -> str:
    """Where a piece lies in the strip of an access."""
    sizes = ", ".join(map(str, strip.moved))
    return f"{access.name} + tf::strip_place<{sizes}>(own, {strip.run} * piece)"


def _active(kernel: KeptKernel, lines: list[str], tests: list[str] | None = None) -> list[str]:
    """What only threads with columns of their own do."""
    return when([*(["is_active"] if kernel.is_cut else []), *(tests or [])], lines)


def _loaded(kernel: KeptKernel) -> list[str]:
    """The rows of a thread in registers, all of them on their way at once."""
    held, names = kernel.rows_per_thread, kernel.names
    declared = [f"{vector_type(a)} {a.name}[{held}];" for a in kernel.kept]
    loads = [f"{a.name}[k] = {load_call(a, names)};" for a in kernel.kept]
    return [*declared, *_over_rows(kernel, loads)]


def _over_rows(kernel: KeptKernel, lines: list[str]) -> list[str]:
    """A loop over the thread's rows, unrolled, as they are in registers."""
    down, rows = kernel.threads_down, number(kernel.rows_per_block)
    own, inner = f"k * {down} + part", if_row(kernel, [*_of_row(kernel, lines), *lines])
    if kernel.rows_per_block % down:
        place = "row" if kernel.cluster == 1 else own
        inner = when([f"(k + 1) * {down} <= {rows} || {place} < {rows}"], inner)
    return each("k", kernel.rows_per_thread, [row_of_thread(kernel, own), *inner])


def _of_row(kernel: KeptKernel, lines: list[str]) -> list[str]:
    """What rows have one of that `lines` read: of both sides of a choice before it is made."""
    found = kernel.at_rows
    if found is None:
        return []
    place = "row" if found.samples == 1 else "sample + row"
    read = [a for a in found.arrays if any(of_row(a) in line for line in lines)]
    return [f"const {COMPUTE_TYPES[a.dtype]} {of_row(a)} = {a.name}[{place}];" for a in read]


def _phase(phase: KeptPhase, kernel: KeptKernel) -> list[str]:
    """The rows combined, and what all threads of a column get of it."""
    if phase.meet:
        return columns_meet(phase, kernel)
    lanes, scope = kernel.axes.lanes, beside_pairs(phase.scope, phase.pairs)
    held = [
        f"{COMPUTE_TYPES[h.dtype]} {h.name}[{kernel.rows_per_thread}][{lanes}];" for h in phase.held
    ]
    lines = [*held, *declared_sums(phase.sums, kernel), *declared_pairs(phase.pairs, lanes)]
    of_row = scope_lines(scope, kernel.names, lanes) if scope.statements else []
    lines += _over_rows(kernel, [*taken_in_pairs(phase.pairs), *of_row])
    lines += unpaired(phase.pairs, lanes)
    lines += [*shared_sums(phase.sums, kernel), *exchanged(phase, kernel)]
    lines += renewed(kernel.kept, kernel.rows_per_thread) if kernel.renews else []
    for total in phase.sums:
        if total.by_lane:
            lines += result_lines(total, kernel, total.rounded)
    return lines
