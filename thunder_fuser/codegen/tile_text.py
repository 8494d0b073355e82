"""A tiled body as C++ text: fill the squares, compute along one axis, empty the squares."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.codegen.blocks import each, enclosed, when
from thunder_fuser.codegen.shared_text import arrays_in_shared, run_bytes
from thunder_fuser.codegen.statements import (
    MIN_COPY,
    address,
    copy_text,
    form_text,
    lane_lines,
    load_call,
    number,
    statement_text,
    store_call,
    vector_type,
)
from thunder_fuser.codegen.types import CUDA_TYPES, index_type
from thunder_fuser.codegen.values import first_in_square
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.map_ir import Body, Turning
from thunder_fuser.kernel.statements import Assign, ReadSquare, VectorAccess, WriteSquare
from thunder_fuser.schedule.lagging import LaggingTile
from thunder_fuser.schedule.sheared import ShearedTile
from thunder_fuser.schedule.slabs import SlabTile
from thunder_fuser.schedule.tiles import LateTile, Tile, Walk


def tile_lines(body: Body, turning: Turning, block: str, threads: int) -> list[str]:
    """The statements of one block. What is loaded directly is on its way while the squares fill."""
    kind = index_type(max([body.blocks(threads), *(form.reach for form in body.forms)]))
    tile, names = turning.tile, body.names
    loads = [f"{a.name}[k] = {load_call(a, names)};" for a in body.loads]
    held = [a for a in turning.loads if a.access_bytes < MIN_COPY]
    fetches = [f"{a.name}_held[k] = {load_call(a, names)};" for a in held]
    copies = [_copy(a, tile, names) for a in turning.loads if a not in held]
    fills = [_fill(a, tile) for a in held]
    values = _values(body, tile, threads)
    empties = [_empty(a, tile, names) for a in turning.stores]

    def along(lines: Sequence[str], walk: Walk) -> list[str]:
        return _loop(lines, walk, tile, names, threads, kind)

    return [
        *_block_index(body, tile, block, kind),
        *(statement_text(s, names) for s in body.before),
        *_squares(turning),
        *(_first_elements(body, tile, names, kind) if isinstance(tile, LateTile) else []),
        *(f"{vector_type(a)} {a.name}[{_turns(tile.computed, threads)}];" for a in body.loads),
        *(f"{vector_type(a)} {a.name}_held[{_turns(tile.moved, threads)}];" for a in held),
        *along(loads, tile.computed),
        *along([*fetches, *copies], tile.moved),
        *along(fills, tile.moved),
        *(["tf::commit_copies();", "tf::await_copies<0>();"] if copies else []),
        *(["__syncthreads();"] if turning.loads else []),
        *along(values, tile.computed),
        *(["__syncthreads();"] if empties else []),
        *along(empties, tile.moved),
    ]


def _loop(
    lines: Sequence[str],
    walk: Walk,
    tile: Tile,
    names: Mapping[IterDomain, str],
    threads: int,
    kind: str,
) -> list[str]:
    """`lines` at each of the thread's vectors of a square."""
    if not lines:
        return []
    starts = {tile.down: "down", tile.across: "across"}
    if walk.keeps and (walk.vectors % threads == 0 or threads % walk.vectors == 0):
        return _kept(lines, walk, starts, names, threads, kind)
    starts |= {tile.turned_down: "down", tile.turned_across: "across"}
    own = walk.rows - walk.lead
    tests = [
        f"{names[axis]} < {number(axis.size)}"
        for axis, size in ((walk.row, own), (walk.vector, walk.own))
        if axis.size % size or (walk.lead and axis is walk.row)
    ]
    before = f" - {walk.lead}" if walk.lead else ""
    if before:
        tests.insert(0, f"{names[walk.row]} >= 0")
    is_straight = walk.beside == walk.vectors
    if walk.places % threads:
        test = f"row < {walk.rows}" if is_straight else f"vector < {walk.vectors}"
        tests.insert(0, test)
    vector = "vector" if walk.step == 1 else f"{walk.step} * vector"
    places = [
        *_place(walk, threads),
        f"const {kind} {names[walk.row]} = {starts[walk.row]} * {own} + row{before};",
        f"const {kind} {names[walk.vector]} = {starts[walk.vector]} * {walk.own} + {vector};",
    ]
    return each("k", _turns(walk, threads), [*places, *when(tests, lines)])


def _values(body: Body, tile: Tile, threads: int) -> list[str]:
    """What threads compute at a place. Where rows lie late they count from the first one."""
    lines = [statement_text(s, body.names) for s in body.once]
    if isinstance(tile, LateTile):
        lines.insert(0, f"const int below = k * {threads // tile.computed.vectors};")
    return [*lines, *_own_lines(body, tile)]


def _own_lines(body: Body, tile: Tile) -> list[str]:
    """What each lane computes, and stores that are not turned: of the block's own rows."""
    lines = lane_lines(body.statements, body.stores, body.names, body.lanes)
    lead = tile.computed.lead
    first = len(lines) - (len(body.stores) if lead else 0)
    return [*lines[:first], *when([f"row >= {lead}"] if lead else [], lines[first:])]


def _kept(
    lines: Sequence[str],
    walk: Walk,
    starts: Mapping[IterDomain, str],
    names: Mapping[IterDomain, str],
    threads: int,
    kind: str,
) -> list[str]:
    """`lines` at each row of the thread's vectors, of which each is tested, and its place in memory
    found, once: of single elements that would be most of what they take."""
    rows, vectors, row, index = walk.rows, walk.vectors, names[walk.row], names[walk.vector]
    parts, beneath = max(vectors // threads, 1), max(threads // vectors, 1)
    start = f"const {kind} {row} = {starts[walk.row]} * {rows} + row;"
    if beneath == 1:
        own = f"const int k = {f'part * {rows} + row' if parts > 1 else 'row'};"
        are_numbered = any("[k]" in line for line in lines)
        loop = each("row", rows, [*([own] if are_numbered else []), start, *lines])
        vector = f"part * {threads} + threadIdx.x" if parts > 1 else "threadIdx.x"
    else:
        row_of = f"const int row = k * {beneath} + threadIdx.x / {vectors};"
        inside = when([f"row < {rows}"] if rows % beneath else [], lines)
        loop = each("k", ceil_div(rows, beneath), [row_of, start, *inside])
        vector = f"threadIdx.x % {vectors}"
    if walk.vector.size % vectors:
        loop = when([f"{index} < {number(walk.vector.size)}"], loop)
    place = f"const {kind} {index} = {starts[walk.vector]} * {vectors} + vector;"
    body = [f"const int vector = {vector};", place, *loop]
    return enclosed(body) if parts == 1 else each("part", parts, body)


def _place(walk: Walk, threads: int) -> list[str]:
    """The row and the vector of a thread at its turn `k`."""
    rows, vectors, beside = walk.rows, walk.vectors, walk.beside
    if beside == vectors and threads % vectors == 0:
        return [
            f"const int row = k * {threads // vectors} + threadIdx.x / {vectors};",
            f"const int vector = threadIdx.x % {vectors};",
        ]
    row, vector = f"place / {vectors}", f"place % {vectors}"
    if beside < vectors:
        row = f"place / {beside} % {rows}"
        vector = f"place / {beside * rows} * {beside} + place % {beside}"
    return [
        f"const unsigned place = k * {threads} + threadIdx.x;",
        f"const int row = {row};",
        f"const int vector = {vector};",
    ]


def _turns(walk: Walk, threads: int) -> int:
    """Vectors of a square that one thread has."""
    return ceil_div(walk.places, threads)


def _block_index(body: Body, tile: Tile, block: str, kind: str) -> list[str]:
    """The block's place along each axis, for the axes of the tile that of its square."""
    lines = [f"const {kind} block = {block};", f"if (block >= {number(body.blocks(1))}) return;"]
    rest, squares = "block", {tile.down: "down", tile.across: "across"}
    counts = tile.counts(body.axes)
    for position in range(len(body.axes) - 1, -1, -1):
        axis, count = body.axes[position], number(counts[position])
        place = f"{rest} % {count}" if position else rest
        lines.append(f"const {kind} {squares.get(axis, f'i{position}')} = {place};")
        rest = f"{rest} / {count}"
    if isinstance(tile, LaggingTile):
        lines.append(f"const {kind} {body.names[tile.first]} = down * {tile.rows};")
    return lines


def _squares(turning: Turning) -> list[str]:
    """Pointers to the squares, which lie in the dynamic shared memory."""
    turned = (*turning.loads, *turning.stores)
    return arrays_in_shared((a.name, CUDA_TYPES[a.dtype], turning.bytes_of(a)) for a in turned)


def _first_elements(
    body: Body, tile: LateTile, names: Mapping[IterDomain, str], kind: str
) -> list[str]:
    """Where the elements of a thread begin in squares whose rows lie late, in a row for each lane:
    it has the same rows all the time, and would find each again at every turn."""
    vectors, sizes = tile.computed.vectors, f"{tile.pitch}, {tile.lanes}, {tile.run}"
    declared, found = list[str](), list[str]()
    for statement in body.statements:
        match statement:
            case Assign(value=ReadSquare(name, _, dtype, late)):
                declared.append(f"const {CUDA_TYPES[dtype]}* {name}_rows[{tile.lanes}];")
            case WriteSquare(name, _, _, dtype, late):
                declared.append(f"{CUDA_TYPES[dtype]}* {name}_rows[{tile.lanes}];")
            case _:
                continue
        row = f"row + {form_text(late, names)}"
        place = f"{name} + tf::late_element<{sizes}>(vector, lane, {row})"
        found.append(f"{first_in_square(name, tile)} = {place};")
    places = [
        f"const int row = threadIdx.x / {vectors};",
        f"const int vector = threadIdx.x % {vectors};",
        f"const {kind} {names[tile.across]} = across * {vectors} + vector;",
    ]
    return [*dict.fromkeys(declared), *enclosed([*places, *each("lane", tile.lanes, found)])]


def _copy(access: VectorAccess, tile: Tile, names: dict[IterDomain, str]) -> str:
    """All of a thread's copies are on their way at once, which in registers would take many."""
    slots = f"reinterpret_cast<{vector_type(access)}*>({access.name} + {_run(tile)})"
    return copy_text(access, slots, "0", names)


def _fill(access: VectorAccess, tile: Tile) -> str:
    """What was loaded before, for the compiler stores one load before it begins the next."""
    place = f"{access.name} + {_run(tile)}"
    return f"tf::store<{run_bytes(access)}>({place}, {access.name}_held[k]);"


def _empty(access: VectorAccess, tile: Tile, names: dict[IterDomain, str]) -> str:
    kind, width = CUDA_TYPES[access.dtype], run_bytes(access)
    if isinstance(tile, ShearedTile):
        return _empty_sheared(access, tile, names)
    run = f"tf::load<{kind}, {access.length}, {width}>({access.name} + {_run(tile)})"
    return store_call(access, f"{address(access, names)}, {run}")


def _empty_sheared(access: VectorAccess, tile: ShearedTile, names: dict[IterDomain, str]) -> str:
    """A vector that begins where its row in memory is aligned, behind what the block before has."""
    assert access.window is not None
    first = form_text(access.window.form, names)
    kind, extent = CUDA_TYPES[access.dtype], number(access.window.extent)
    place = f"{access.name} + {_run(tile)} + {tile.lead}"
    run = f"tf::load<{kind}, {access.length}, {run_bytes(access)}>({place})"
    to = f"{address(access, names)}, {run}, {first}, {extent}, false"
    return f"tf::store_within<{access.access_bytes}>({to});"


def _run(tile: Tile) -> str:
    """Where the vector of a thread lies in a square."""
    if isinstance(tile, SlabTile):
        return f"tf::slab_vector<{tile.pitch}, {tile.run}>(row, vector)"
    if isinstance(tile, LateTile):
        return f"tf::late_vector<{tile.pitch}, {tile.lanes}, {tile.run}>(row, vector)"
    if tile.run < tile.lanes:
        element = "vector" if tile.run == 1 else f"{tile.run} * vector"
        return f"tf::square_run<{tile.side}, {tile.lanes}>(row, {element})"
    return f"tf::square_vector<{tile.side}, {tile.lanes}>(row, vector)"
