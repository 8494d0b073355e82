"""Kept columns that are places of images in shared memory, as C++ text.

image arrives             in one stretch of each plane
phases                    a thread is at a place, with every so many-th row
then                      the same, or a thread is at a row, with every so many-th place: it has the
                          sums over all places beside, of all images of the block
image leaves              from where it lay, in one stretch

What is turned is copied by all threads, and stored by those that are at rows. Threads at places
have a vector of its rows at a time.
"""

from __future__ import annotations

from dataclasses import replace

from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.codegen.beside_text import known, sums_beside
from thunder_fuser.codegen.column_sums import (
    combined_parts,
    declared_sums,
    left_parts,
    per_lane,
    places_lines,
    result_lines,
)
from thunder_fuser.codegen.shared_text import LINES, arrays_in_shared
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
from thunder_fuser.kernel.row_ir import Accumulator, Scope
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.schedule.images import moved_together

UNROLL = 8  # rows, or places, of a thread


def image_lines(kernel: KeptKernel, images: Images) -> list[str]:
    """The statements of the entry point."""
    sizes = images.bytes_of_slots
    arrays = [(_slots(p.name, kernel), CUDA_TYPES[p.dtype], sizes[p.name]) for p in images.planes]
    head = [*places_lines(kernel), *arrays_in_shared(arrays, LINES), *opened(images.slots)]
    kind, sent = index_type(kernel.reach), _sent(kernel, images)
    once = [*_rows_in_shared(kernel, images), "__syncthreads();"]
    early = [_vector(kernel), *(load_text(a, kernel.names) for a in kernel.once)]
    work = [*_work(kernel, images), *_stored(kernel, images)]
    rows = _dealt(kernel)
    if _is_by_rows(kernel, images):
        head.append(f"const int own = threadIdx.x % {rows.at_once};")
        head.append(f"const int share = threadIdx.x / {rows.at_once};")
    if kernel.group is None:
        places = [f"const {kind} image = blockIdx.x;"]
        arrived = ["tf::await_mail(arrived[0]);", *_copied(images)]
        ended = ["if (threadIdx.x == 0) tf::await_stores();"] if _is_stored(images) else []
        return [*head, *places, *sent, *early, *once, *arrived, *work, *ended]
    groups = number(kernel.group.size)
    turn = [*early, *_ahead(images), arrival(images.slots), *_copied(images), *work]
    return [
        *head,
        f"const {kind} group = blockIdx.x;",
        f"const {kind} turns = ({number(images.count)} - group + {groups} - 1) / {groups};",
        *sums_beside(kernel, rows.per_thread),
        *over_turns(images.slots, kind, "turns", _places(kernel, images), sent, once, turn),
        *_results(kernel),
    ]


def _is_by_rows(kernel: KeptKernel, images: Images) -> bool:
    """True where threads are at rows behind the phases."""
    return kernel.group is not None or images.turns_out


def _is_stored(images: Images) -> bool:
    """True where images leave as they came."""
    return any(plane.stored for plane in images.planes)


def _is_turned(images: Images) -> bool:
    """True where threads copy what is turned, each some vectors."""
    return any(plane.pitch is not None for plane in images.planes)


def _ahead(images: Images) -> list[str]:
    """As of slots. Copies that threads make are a group each turn, in the last turn an empty one,
    so that those of as many turns as there are other slots may be on their way."""
    sent = ahead(images.slots, "turns")
    is_last_empty = _is_turned(images) and images.slots > 1
    return [*sent, "else tf::commit_copies();"] if is_last_empty else sent


def _copied(images: Images) -> list[str]:
    """Until all threads have what each copied."""
    if not _is_turned(images):
        return []
    return [f"tf::await_copies<{images.slots - 1}>();", "__syncthreads();"]


def _dealt(kernel: KeptKernel) -> DealtRows:
    return DealtRows.of(kernel.axes.row.size, kernel.threads, kernel.threads_across)


def _rows_in_shared(kernel: KeptKernel, images: Images) -> list[str]:
    """What there is one of per row, where all threads find it."""
    rows, kind = kernel.axes.row.size, index_type(kernel.reach)
    aligned = f"__align__({MAX_ALIGNMENT}) " if images.vector > 1 else ""
    room = [f"__shared__ {aligned}{CUDA_TYPES[a.dtype]} {n}[{rows}];" for n, a in images.rows]
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
        slot = f"{plane.name}_slots + int(turn % {images.slots}) * {number(images.held(plane))}"
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
    sent = [ONE, *indent([mail, expected, *copies, *later]), "}"]
    return [*_copies(kernel, images), *sent]


def _copies(kernel: KeptKernel, images: Images) -> list[str]:
    """Of what is turned, by all threads: the rows of a place are whole vectors."""
    lines, rows, size = list[str](), number(images.row_count), number(images.elements)
    for plane in images.planes:
        if plane.pitch is not None:
            vector = MAX_ALIGNMENT // plane.dtype.itemsize
            kind = f"tf::Vec<{CUDA_TYPES[plane.dtype]}, {vector}>"
            place = f"{plane.name} + at / {rows} * {number(plane.pitch)} + at % {rows}"
            copy = f"tf::copy_async<{MAX_ALIGNMENT}>(reinterpret_cast<{kind}*>({place}), 0, from);"
            step = kernel.threads * vector
            lines += [
                f"for (int at = threadIdx.x * {vector}; at < {size}; at += {step}) {{",
                f"  const auto* const from = {plane.pointer} + image * {size} + at;",
                f"  {copy}",
                "}",
            ]
    return [*lines, "tf::commit_copies();"] if lines else []


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
    if _is_by_rows(kernel, images):
        full = scope_lines(kernel.full, names, lanes)
        return [*lines, *_left_at_places(kernel, images), *_by_rows(kernel, images, full)]
    if not kernel.full.statements:
        return lines
    return [*lines, *_placed(kernel, _over_rows(kernel, kernel.full))]


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
    own = _over_rows(kernel, phase.scope)
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


def _over_rows(kernel: KeptKernel, scope: Scope) -> list[str]:
    """A loop over the rows of a thread at a place."""
    assert kernel.images is not None
    kind, vector = index_type(kernel.reach), kernel.images.vector
    names, lanes, rows = kernel.names, kernel.axes.lanes, kernel.axes.row.size
    if vector == 1:
        head = f"for ({kind} row = part; row < {number(rows)}; row += {kernel.threads_down}) {{"
        return [f"#pragma unroll {UNROLL}", head, *indent(scope_lines(scope, names, lanes)), "}"]
    along = [a for a in scope.loads if _is_along(a, kernel)]
    others = tuple(a for a in scope.loads if a not in along)
    own = [f"const {kind} row = first + k;"]
    for access in along:
        kind_of_one = f"tf::Vec<{CUDA_TYPES[access.dtype]}, 1>"
        own.append(f"const {kind_of_one} {access.name} = {{{{{access.name}_rows.v[k]}}}};")
    own += scope_lines(replace(scope, loads=others), names, lanes)
    step = kernel.threads_down * vector
    head = f"for ({kind} first = part * {vector}; first < {number(rows)}; first += {step}) {{"
    several = [_vector_of_rows(a, kernel) for a in along]
    inner = ["#pragma unroll", f"for (int k = 0; k < {vector}; ++k) {{", *indent(own), "}"]
    return [f"#pragma unroll {UNROLL // vector}", head, *indent([*several, *inner]), "}"]


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
