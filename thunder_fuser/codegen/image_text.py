"""Kept columns that are places of images in shared memory, as C++ text.

image arrives             in one stretch of each plane
phases                    a thread is at a place, with every so many-th row
then                      the same, or a thread is at a row, with every so many-th place: it has the
                          sums over all places beside, of all images of the block
image leaves              from where it lay, in one stretch
"""

from __future__ import annotations

from thunder_fuser.codegen.beside_text import known, sums_beside
from thunder_fuser.codegen.column_sums import (
    combined_parts,
    declared_sums,
    left_parts,
    per_lane,
    places_lines,
    result_lines,
)
from thunder_fuser.codegen.shared_text import arrays_in_shared
from thunder_fuser.codegen.slots_text import ONE, ahead, arrival, opened, over_turns
from thunder_fuser.codegen.split_text import combiner, state_type
from thunder_fuser.codegen.statements import (
    indent,
    load_call,
    load_text,
    number,
    scope_lines,
)
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES, index_type
from thunder_fuser.kernel.image_ir import DealtRows, Images, PlaceArray
from thunder_fuser.kernel.kept_ir import KeptKernel, KeptPhase
from thunder_fuser.kernel.row_ir import Accumulator
from thunder_fuser.schedule.images import moved_together

UNROLL = 8  # rows, or places, of a thread


def image_lines(kernel: KeptKernel, images: Images) -> list[str]:
    """The statements of the entry point."""
    sizes = images.bytes_of_slots
    arrays = [(_slots(p.name, kernel), CUDA_TYPES[p.dtype], sizes[p.name]) for p in images.planes]
    head = [*places_lines(kernel), *arrays_in_shared(arrays), *opened(images.slots)]
    kind, sent = index_type(kernel.reach), _sent(kernel, images)
    once = [*_rows_in_shared(kernel, images), "__syncthreads();"]
    early = [_vector(kernel), *(load_text(a, kernel.names) for a in kernel.once)]
    work = [*_work(kernel, images), *_stored(kernel, images)]
    if kernel.group is None:
        places = [f"const {kind} image = blockIdx.x;"]
        awaited, ended = "tf::await_mail(arrived[0]);", "if (threadIdx.x == 0) tf::await_stores();"
        return [*head, *places, *sent, *early, *once, awaited, *work, ended]
    groups, rows = number(kernel.group.size), _dealt(kernel)
    turn = [*early, *ahead(images.slots, "turns"), arrival(images.slots), *work]
    return [
        *head,
        f"const {kind} group = blockIdx.x;",
        f"const {kind} turns = ({number(images.count)} - group + {groups} - 1) / {groups};",
        f"const int own = threadIdx.x % {rows.at_once};",
        f"const int share = threadIdx.x / {rows.at_once};",
        *sums_beside(kernel, rows.per_thread),
        *over_turns(images.slots, kind, "turns", _places(kernel, images), sent, once, turn),
        *_results(kernel),
    ]


def _dealt(kernel: KeptKernel) -> DealtRows:
    return DealtRows.of(kernel.axes.row.size, kernel.threads, kernel.threads_across)


def _rows_in_shared(kernel: KeptKernel, images: Images) -> list[str]:
    """What there is one of per row, where all threads find it."""
    rows, kind = kernel.axes.row.size, index_type(kernel.reach)
    room = [f"__shared__ {CUDA_TYPES[a.dtype]} {name}[{rows}];" for name, a in images.rows]
    taken = [f"{name}[row] = {load_call(a, kernel.names)}.v[0];" for name, a in images.rows]
    head = f"for ({kind} row = threadIdx.x; row < {rows}; row += {kernel.threads}) {{"
    return [*room, head, *indent(taken), "}"] if taken else []


def _slots(name: str, kernel: KeptKernel) -> str:
    return name if kernel.group is None else f"{name}_slots"


def _places(kernel: KeptKernel, images: Images) -> list[str]:
    """Which image a turn is of, and where that lies."""
    assert kernel.group is not None
    lines = [
        f"const {index_type(kernel.reach)} image = turn * {number(kernel.group.size)} + group;"
    ]
    for plane in images.planes:
        slot = f"{plane.name}_slots + int(turn % {images.slots}) * {number(images.elements)}"
        lines.append(f"{CUDA_TYPES[plane.dtype]}* const {plane.name} = {slot};")
    return lines


def _vector(kernel: KeptKernel) -> str:
    """Which vector of columns a place of the image is."""
    across = number(kernel.threads_across)
    return f"const {index_type(kernel.reach)} vector = image * {across} + place;"


def _sent(kernel: KeptKernel, images: Images) -> list[str]:
    """All of the image, on its way: what the image before left to be stored last."""
    size = number(images.elements)
    slot = "0" if kernel.group is None else f"turn % {images.slots}"
    total = sum(plane.dtype.itemsize for plane in images.planes)
    copies, later = list[str](), list[str]()
    for plane in images.planes:
        copy = f"{plane.name}, {plane.pointer} + image * {size}, {size}, mail"
        (later if plane.stored else copies).append(f"tf::copy_stretch({copy});")
    if later and kernel.group is not None:
        copies.append("tf::await_stores();")
    expected = f"tf::expect_mail(mail, {size} * {total});"
    mail = f"tf::Mailbox& mail = arrived[{slot}];"
    return [ONE, *indent([mail, expected, *copies, *later]), "}"]


def _stored(kernel: KeptKernel, images: Images) -> list[str]:
    """What all threads of the block have filled, to memory, when they have left the image."""
    size = number(images.elements)
    stores = [
        f"tf::store_stretch({to} + image * {size}, {plane.name}, {size});"
        for plane in images.planes
        for to in plane.stored
    ]
    if not stores:
        return ["__syncthreads();"] if kernel.group is not None else []
    return ["tf::show_stretches();", "__syncthreads();", ONE, *indent(stores), "}"]


def _work(kernel: KeptKernel, images: Images) -> list[str]:
    """What a block does with an image that is there."""
    names, lanes, lines = kernel.names, kernel.axes.lanes, list[str]()
    for phase in kernel.phases:
        lines += _phase(phase, kernel)
    if kernel.final.statements:
        lines += _first(scope_lines(kernel.final, names, lanes))
    full = scope_lines(kernel.full, names, lanes)
    if kernel.group is not None:
        return [*lines, *_left_at_places(kernel, images), *_by_rows(kernel, images, full)]
    return [*lines, *_placed(kernel, _over_rows(kernel, full))] if full else lines


def _first(lines: list[str]) -> list[str]:
    """What one thread of each place does."""
    return ["if (part == 0) {", *indent(lines), "}"]


def _left_at_places(kernel: KeptKernel, images: Images) -> list[str]:
    """What threads at rows are to know of each place, in shared memory."""
    left, places = images.at_places, kernel.threads_across * kernel.axes.lanes
    rooms = [f"__shared__ {_values(a)} {a.name}_at[{places}];" for a in left.arrays]
    own = scope_lines(left.scope, kernel.names, kernel.axes.lanes)
    return [*rooms, *_first(own), "__syncthreads();"] if rooms else []


def _values(array: PlaceArray) -> str:
    """Of a place: as many as are moved at a time, or more."""
    return f"tf::Vec<{COMPUTE_TYPES[array.dtype]}, {moved_together(array.count)}>"


def _phase(phase: KeptPhase, kernel: KeptKernel) -> list[str]:
    """The rows combined, and what all threads of a place get of it."""
    own = _over_rows(kernel, scope_lines(phase.scope, kernel.names, kernel.axes.lanes))
    own += left_parts(phase.sums, kernel)
    lines = [*declared_sums(phase.sums, kernel), *_placed(kernel, own)]
    lines += combined_parts(phase.sums, kernel)
    for total, rounded in zip(phase.sums, phase.rounded, strict=True):
        lines += result_lines(total, kernel, rounded)
    return lines


def _placed(kernel: KeptKernel, lines: list[str]) -> list[str]:
    """What only threads with rows of a place do."""
    if kernel.images is None or not kernel.images.idle:
        return lines
    return [f"if (part < {kernel.threads_down}) {{", *indent(lines), "}"]


def _over_rows(kernel: KeptKernel, lines: list[str]) -> list[str]:
    """A loop over the rows of a thread at a place."""
    kind, rows = index_type(kernel.reach), number(kernel.axes.row.size)
    head = f"for ({kind} row = part; row < {rows}; row += {kernel.threads_down}) {{"
    return [f"#pragma unroll {UNROLL}", head, *indent(lines), "}"]


def _by_rows(kernel: KeptKernel, images: Images, lines: list[str]) -> list[str]:
    """Loops over the rows of a thread, and over its places of each."""
    dealt, across, lanes = _dealt(kernel), kernel.threads_across, kernel.axes.lanes
    taken = []
    for array in images.at_places.arrays:
        taken.append(f"{_values(array)} {array.name}[{lanes}];")
        own = f"{array.name}_at[lane * {across} + place]"
        taken += per_lane(f"{array.name}[lane] = {own};", lanes)
    head = f"for (int place = share; place < {across}; place += {dealt.sharers}) {{"
    inner = [_vector(kernel), *taken, *lines]
    return _over_dealt(kernel, [f"#pragma unroll {UNROLL}", head, *indent(inner), "}"])


def _over_dealt(kernel: KeptKernel, lines: list[str]) -> list[str]:
    """A loop over the rows that a thread has places of."""
    dealt, rows, kind = _dealt(kernel), kernel.axes.row.size, index_type(kernel.reach)
    tests = [f"row < {number(rows)}"] if rows % dealt.at_once else []
    tests += [f"share < {dealt.sharers}"] if dealt.at_once < kernel.threads else []
    body = [f"if ({' && '.join(tests)}) {{", *indent(lines), "}"] if tests else lines
    head = f"for (int k = 0; k < {dealt.per_thread}; ++k) {{"
    place = f"const {kind} row = k * {dealt.at_once} + own;"
    return ["#pragma unroll", head, *indent([place, *body]), "}"]


def _results(kernel: KeptKernel) -> list[str]:
    """The sums over all places, where several threads have a row met in shared memory, stored."""
    dealt, lines = _dealt(kernel), list[str]()
    known_sums, left = list[str](), list[str]()
    for total in kernel.beside:
        met = f"{total.name}_sum[k]"
        if dealt.sharers > 1:
            kind = state_type(total.op, total.dtype)
            lines.append(f"__shared__ {kind} {total.name}_met[{dealt.sharers}][{dealt.at_once}];")
            left.append(f"{total.name}_met[share][own] = {met};")
            known_sums += _met(total, dealt)
            met = f"{total.name}_all_met"
        known_sums.append(known(total, met))
    stores = scope_lines(kernel.results, kernel.names, 1)
    stored = [*known_sums, *stores]
    if dealt.sharers > 1:
        lines += [*_over_dealt(kernel, left), "__syncthreads();"]
        stored = ["if (share == 0) {", *indent(stored), "}"]
    return [*lines, *_over_dealt(kernel, stored)]


def _met(total: Accumulator, dealt: DealtRows) -> list[str]:
    """A row's sums of all threads that share it, in their order."""
    name, combine = total.name, combiner(total.op, total.dtype)
    kind = state_type(total.op, total.dtype)
    return [
        f"{kind} {name}_all_met = {name}_met[0][own];",
        "#pragma unroll",
        f"for (int other = 1; other < {dealt.sharers}; ++other) {{",
        f"  {name}_all_met = {combine}({name}_all_met, {name}_met[other][own]);",
        "}",
    ]
