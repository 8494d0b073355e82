"""Kept columns that are places of images in shared memory, as C++ text.

image arrives             in one stretch of each plane
phases                    a thread is at a place, with every so many-th row
then                      the same, or a thread is at a row, with some of its places: it has the
                          sums over all places beside, of all images (`image_rows_text.py`)
image leaves              from where it lay, in one stretch

What is turned is copied by all threads, and stored by those that are at rows. Threads at places
have a vector of its rows at a time.
"""

from __future__ import annotations

from dataclasses import replace

from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.codegen.beside_text import sums_beside
from thunder_fuser.codegen.blocks import block, by_first_thread, each, function, unrolled, when
from thunder_fuser.codegen.column_sums import (
    combined_parts,
    declared_sums,
    left_parts,
    places_lines,
    result_lines,
)
from thunder_fuser.codegen.image_pieces_text import behind_rows, copied, over_turns_in_pieces
from thunder_fuser.codegen.image_rows_text import (
    by_rows,
    dealt_rows,
    own_rows,
    results,
    values_type,
    vector_line,
)
from thunder_fuser.codegen.shared_text import LINES, arrays_in_shared
from thunder_fuser.codegen.slots_text import ahead, arrival, opened, over_turns
from thunder_fuser.codegen.statements import load_call, load_text, number, scope_lines
from thunder_fuser.codegen.types import CUDA_TYPES, index_type
from thunder_fuser.kernel.image_ir import Images
from thunder_fuser.kernel.kept_ir import KeptKernel, KeptPhase
from thunder_fuser.kernel.scopes import Scope
from thunder_fuser.kernel.statements import VectorAccess

UNROLL = 8  # rows of a thread


def image_lines(kernel: KeptKernel, images: Images) -> list[str]:
    """The statements of the entry point."""
    sizes = images.bytes_of_slots
    arrays = [(_slots(p.name, kernel), CUDA_TYPES[p.dtype], sizes[p.name]) for p in images.planes]
    head = [*places_lines(kernel), *arrays_in_shared(arrays, LINES), *opened(images.slots)]
    kind, copies, sent = index_type(kernel.reach), copied(kernel, images), _sent(kernel, images)
    once = [*_rows_in_shared(kernel, images), "__syncthreads();"]
    early = [vector_line(kernel), *(load_text(a, kernel.names) for a in kernel.once)]
    work = [*_work(kernel, images), *_stored(kernel, images)]
    rows = dealt_rows(kernel)
    if _is_by_rows(kernel, images):
        head += own_rows(kernel, images)
    if kernel.group is None:
        places = [f"const {kind} image = blockIdx.x;"]
        arrived = [*(_awaited(images) if copies else []), "tf::await_mail(arrived[0]);"]
        ended = ["if (threadIdx.x == 0) tf::await_stores();"] if _is_stored(images) else []
        return [*head, *places, *copies, *sent, *early, *once, *arrived, *work, *ended]
    groups, slots = number(kernel.group.size), _places(kernel, images)
    head += [
        f"const {kind} group = blockIdx.x;",
        f"const {kind} turns = ({number(images.count)} - group + {groups} - 1) / {groups};",
        *sums_beside(kernel, rows.per_thread),
    ]
    if images.pieces > 1:
        pieces = over_turns_in_pieces(kernel, images, slots, once, early, _work(kernel, images))
        return [*head, *pieces, *results(kernel)]
    copy = list[str]()
    if copies:
        copy = function("copy", [f"const {kind} turn"], [*slots, *copies])
        once = [*_first_copies(kind, images), *once]
    coming = _coming(images) if copies else ahead(images.slots, "turns")
    turn = [*early, *coming, arrival(images.slots), *work]
    walked = over_turns(images.slots, kind, "turns", slots, sent, once, turn)
    return [*head, *copy, *walked, *results(kernel)]


def _is_by_rows(kernel: KeptKernel, images: Images) -> bool:
    """True where threads are at rows behind the phases."""
    return kernel.group is not None or images.turns_out


def _is_stored(images: Images) -> bool:
    """True where images leave as they came."""
    return any(plane.stored for plane in images.planes)


def _first_copies(kind: str, images: Images) -> list[str]:
    """Of the turns that are sent before all."""
    if images.slots == 1:
        return []
    head = f"for ({kind} turn = 0; turn < {images.slots - 1} && turn < turns; ++turn) copy(turn);"
    return ["#pragma unroll 1", head]


def _coming(images: Images) -> list[str]:
    """What is copied and sent ahead. Copies are a group each turn, in the last turn an empty one,
    so that those of as many turns as there are other slots may be on their way. What is sent waits
    for stores: to another slot it is behind the barrier, at which all would wait for that."""
    sent, ahead_by = ahead(images.slots, "turns"), images.slots - 1
    if not ahead_by:
        return ["copy(turn);", *sent, *_awaited(images)]
    coming = f"if (turn + {ahead_by} < turns) copy(turn + {ahead_by});"
    return [coming, "else tf::commit_copies();", *_awaited(images), *sent]


def _awaited(images: Images) -> list[str]:
    """Until all threads have what each copied."""
    return [f"tf::await_copies<{images.slots - 1}>();", "__syncthreads();"]


def _rows_in_shared(kernel: KeptKernel, images: Images) -> list[str]:
    """What there is one of per row, where all threads find it."""
    rows, kind = kernel.axes.row.size, index_type(kernel.reach)
    aligned = f"__align__({MAX_ALIGNMENT}) " if images.vector > 1 else ""
    room = [f"__shared__ {aligned}{CUDA_TYPES[a.dtype]} {n}[{rows}];" for n, a in images.rows]
    taken = [f"{name}[row] = {load_call(a, kernel.names)}.v[0];" for name, a in images.rows]
    head = f"for ({kind} row = threadIdx.x; row < {rows}; row += {kernel.threads})"
    return [*room, *block(head, taken)] if taken else []


def _slots(name: str, kernel: KeptKernel) -> str:
    return name if kernel.group is None else f"{name}_slots"


def _places(kernel: KeptKernel, images: Images) -> list[str]:
    """Which image a turn is of, and where that lies."""
    assert kernel.group is not None
    lines = [
        f"const {index_type(kernel.reach)} image = turn * {number(kernel.group.size)} + group;"
    ]
    for plane in images.planes:
        slot = f"{plane.name}_slots + int(turn % {images.slots}) * {number(images.held(plane))}"
        lines.append(f"{CUDA_TYPES[plane.dtype]}* const {plane.name} = {slot};")
    return lines


def _sent(kernel: KeptKernel, images: Images) -> list[str]:
    """All of the image, on its way: what the image before left to be stored last."""
    size = number(images.elements)
    slot = "0" if kernel.group is None else f"turn % {images.slots}"
    straight = [plane for plane in images.planes if plane.pitch is None]
    total = sum(plane.dtype.itemsize for plane in straight)
    copies, later = list[str](), list[str]()
    for plane in straight:
        copy = f"{plane.name}, {plane.pointer} + image * {size}, {size}, mail"
        (later if plane.stored else copies).append(f"tf::copy_stretch({copy});")
    if later and kernel.group is not None:
        copies.append("tf::await_stores();")
    expected = f"tf::expect_mail(mail, {size} * {total});"
    mail = f"tf::Mailbox& mail = arrived[{slot}];"
    return by_first_thread([mail, expected, *copies, *later])


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
    return ["tf::show_stretches();", "__syncthreads();", *by_first_thread(stores)]


def _work(kernel: KeptKernel, images: Images) -> list[str]:
    """What a block does with an image that is there."""
    names, lanes, lines = kernel.names, kernel.axes.lanes, list[str]()
    for phase in kernel.phases:
        lines += _phase(phase, kernel)
    if kernel.final.statements:
        lines += _first(scope_lines(kernel.final, names, lanes))
    if _is_by_rows(kernel, images):
        behind = behind_rows(images) if images.pieces > 1 else []
        return [*lines, *_left_at_places(kernel, images), *by_rows(kernel, images, behind)]
    if not kernel.full.statements:
        return lines
    return [*lines, *_placed(kernel, _over_rows(kernel, kernel.full))]


def _first(lines: list[str]) -> list[str]:
    """What one thread of each place does."""
    return when(["part == 0"], lines)


def _left_at_places(kernel: KeptKernel, images: Images) -> list[str]:
    """What threads at rows are to know of each place, in shared memory."""
    left, places = images.at_places, kernel.threads_across * kernel.axes.lanes
    rooms = [f"__shared__ {values_type(a)} {a.name}_at[{places}];" for a in left.arrays]
    own = scope_lines(left.scope, kernel.names, kernel.axes.lanes)
    return [*rooms, *_first(own), "__syncthreads();"] if rooms else []


def _phase(phase: KeptPhase, kernel: KeptKernel) -> list[str]:
    """The rows combined, and what all threads of a place get of it."""
    own = _over_rows(kernel, phase.scope)
    own += left_parts(phase.sums, kernel)
    lines = [*declared_sums(phase.sums, kernel), *_placed(kernel, own)]
    lines += combined_parts(phase.sums, kernel)
    for total in phase.sums:
        lines += result_lines(total, kernel, total.rounded)
    return lines


def _placed(kernel: KeptKernel, lines: list[str]) -> list[str]:
    """What only threads with rows of a place do."""
    has_idle = kernel.images is not None and kernel.images.idle
    return when([f"part < {kernel.threads_down}"] if has_idle else [], lines)


def _over_rows(kernel: KeptKernel, scope: Scope) -> list[str]:
    """A loop over the rows of a thread at a place."""
    assert kernel.images is not None
    kind, vector = index_type(kernel.reach), kernel.images.vector
    names, lanes, rows = kernel.names, kernel.axes.lanes, kernel.axes.row.size
    if vector == 1:
        head = f"for ({kind} row = part; row < {number(rows)}; row += {kernel.threads_down})"
        return unrolled(head, scope_lines(scope, names, lanes), UNROLL)
    along = [a for a in scope.loads if _is_along(a, kernel)]
    others = tuple(a for a in scope.loads if a not in along)
    own = [f"const {kind} row = first + k;"]
    for access in along:
        kind_of_one = f"tf::Vec<{CUDA_TYPES[access.dtype]}, 1>"
        own.append(f"const {kind_of_one} {access.name} = {{{{{access.name}_rows.v[k]}}}};")
    own += scope_lines(replace(scope, loads=others), names, lanes)
    step = kernel.threads_down * vector
    head = f"for ({kind} first = part * {vector}; first < {number(rows)}; first += {step})"
    several = [_vector_of_rows(a, kernel) for a in along]
    return unrolled(head, [*several, *each("k", vector, own)], UNROLL // vector)


def _is_along(access: VectorAccess, kernel: KeptKernel) -> bool:
    """True where rows follow each other."""
    steps = [weight for weight, digit in access.offset.terms if digit.base is kernel.axes.row]
    return steps == [1]


def _vector_of_rows(access: VectorAccess, kernel: KeptKernel) -> str:
    """Loads what there is of the rows from `first` on, which are aligned."""
    assert kernel.images is not None
    vector, names = kernel.images.vector, {**kernel.names, kernel.axes.row: "first"}
    moved = min(vector * access.dtype.itemsize, MAX_ALIGNMENT)
    several = replace(access, name=f"{access.name}_rows", length=vector, access_bytes=moved)
    return load_text(several, names)
