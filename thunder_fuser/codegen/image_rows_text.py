"""What threads at rows of images in shared memory do, and the sums over all places, as C++ text.

for k                     the rows of a thread
  for place               some of each, or pairs of them:
    for half                what is read and stored of a pair is one access

A row of 7 x 7 places of 16 bits begins inside a word of shared memory if its number is odd. Its
first place is done alone then, else its last one. Threads side by side have rows of one kind.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thunder_fuser.codegen.beside_text import known
from thunder_fuser.codegen.blocks import each, enclosed, per_lane, unrolled, when
from thunder_fuser.codegen.split_text import combiner, state_type
from thunder_fuser.codegen.statements import address, load_text, number, scope_lines
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES, index_type
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.image_ir import DealtRows, Images, PlaceArray
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.kernel.scopes import Accumulator, Scope
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.schedule.images import moved_together

UNROLL = 8  # places of a thread


def dealt_rows(kernel: KeptKernel) -> DealtRows:
    """How the rows of an image are dealt to the threads of a block that are at rows."""
    pieces = 1 if kernel.images is None else kernel.images.pieces
    return DealtRows.of(kernel.axes.row.size, kernel.threads, kernel.threads_across, pieces)


def own_rows(kernel: KeptKernel, images: Images) -> list[str]:
    """Which of the rows that are dealt at once a thread has, and as which of its sharers."""
    rows = dealt_rows(kernel).at_once
    own = f"threadIdx.x % {rows}"
    if images.has_pairs and images.places % 2:
        half = rows // 2
        own = f"2 * (threadIdx.x % {half}) + threadIdx.x % {rows} / {half}"
    return [f"const int own = {own};", f"const int share = threadIdx.x / {rows};"]


def vector_line(kernel: KeptKernel) -> str:
    """Which vector of columns a place of the image is."""
    across = number(kernel.threads_across)
    return f"const {index_type(kernel.reach)} vector = image * {across} + place;"


def values_type(array: PlaceArray) -> str:
    """Of a place: as many as are moved at a time, or more."""
    return f"tf::Vec<{COMPUTE_TYPES[array.dtype]}, {moved_together(array.count)}>"


def by_rows(kernel: KeptKernel, images: Images, behind: Sequence[str] = ()) -> list[str]:
    """Loops over the rows of a thread, and over its places of each. All threads do what is `behind`
    rows that are dealt at once."""
    once = [a for a in kernel.full.loads if a.offset.bases == {kernel.axes.row}]
    scope = replace(kernel.full, loads=tuple(a for a in kernel.full.loads if a not in once))
    of_row = [load_text(a, kernel.names) for a in once]
    if images.has_pairs:
        lines = [*of_row, *_over_pairs(kernel, images, scope)]
        return _over_dealt(kernel, [*_guarded(kernel, lines), *behind])
    head = f"for (int place = share; place < {kernel.threads_across}; place += "
    head += f"{dealt_rows(kernel).sharers})"
    lines = [*of_row, *unrolled(head, _at_place(kernel, images, scope), UNROLL)]
    return _over_dealt(kernel, [*_guarded(kernel, lines), *behind])


def _at_place(kernel: KeptKernel, images: Images, scope: Scope) -> list[str]:
    """What a thread does at one place of its row."""
    full = scope_lines(scope, kernel.names, kernel.axes.lanes)
    return [vector_line(kernel), *_taken(kernel, images), *full]


def _taken(kernel: KeptKernel, images: Images) -> list[str]:
    """What is known of a place."""
    lines, across, lanes = list[str](), kernel.threads_across, kernel.axes.lanes
    for array in images.at_places.arrays:
        lines.append(f"{values_type(array)} {array.name}[{lanes}];")
        own = f"{array.name}_at[lane * {across} + place]"
        lines += per_lane(f"{array.name}[lane] = {own};", lanes)
    return lines


def _over_pairs(kernel: KeptKernel, images: Images, scope: Scope) -> list[str]:
    """The pairs of places that a thread has of a row, and the place that is left."""
    places, sharers = images.places, dealt_rows(kernel).sharers
    is_odd = places % 2 > 0
    first = "2 * pair + (row & 1)" if is_odd else "2 * pair"
    head = f"for (int pair = share; pair < {places // 2}; pair += {sharers})"
    inner = [f"const int first = {first};", *_at_pair(kernel, images, scope)]
    lines = unrolled(head, inner, UNROLL // 2)
    if not is_odd:
        return lines
    last = f"const int place = row & 1 ? 0 : {places - 1};"
    alone = [last, *_at_place(kernel, images, scope)]
    return [*lines, *(when(["share == 0"], alone) if sharers > 1 else enclosed(alone))]


def _at_pair(kernel: KeptKernel, images: Images, scope: Scope) -> list[str]:
    """What a thread does at two places of its row."""
    slots = {p.name for p in images.planes if p.pitch is None}
    loads = [a for a in scope.loads if a.pointer in slots]
    stores = [a for a in scope.stores if a.pointer in slots]
    others = replace(
        scope,
        loads=tuple(a for a in scope.loads if a not in loads),
        stores=tuple(a for a in scope.stores if a not in stores),
    )
    made = {a.name: CUDA_TYPES[a.dtype] for a in stores}
    lines = [load_text(_pair(a), _at_first(kernel, images)) for a in loads]
    lines += [f"tf::Vec<{kind}, 2> {name}_pair;" for name, kind in made.items()]
    own = ["const int place = first + half;", vector_line(kernel), *_taken(kernel, images)]
    for access in loads:
        kind = f"tf::Vec<{CUDA_TYPES[access.dtype]}, 1>"
        own.append(f"const {kind} {access.name} = {{{{{access.name}_pair.v[half]}}}};")
    own += [f"tf::Vec<{kind}, 1> {name};" for name, kind in made.items()]
    own += scope_lines(others, kernel.names, kernel.axes.lanes)
    own += [f"{name}_pair.v[half] = {name}.v[0];" for name in made]
    lines += each("half", 2, own)
    return [*lines, *(_store_pair(a, kernel, images) for a in stores)]


def _pair(access: VectorAccess) -> VectorAccess:
    """Two elements where `access` is one."""
    width = 2 * access.dtype.itemsize
    return replace(access, name=f"{access.name}_pair", length=2, access_bytes=width)


def _at_first(kernel: KeptKernel, images: Images) -> dict[IterDomain, str]:
    return {**kernel.names, images.place: "first"}


def _store_pair(access: VectorAccess, kernel: KeptKernel, images: Images) -> str:
    pair = _pair(access)
    place = address(pair, _at_first(kernel, images))
    return f"tf::store<{pair.access_bytes}>({place}, {pair.name});"


def _over_dealt(kernel: KeptKernel, lines: list[str]) -> list[str]:
    """A loop over the rows of a thread."""
    dealt, kind = dealt_rows(kernel), index_type(kernel.reach)
    return each("k", dealt.per_thread, [f"const {kind} row = k * {dealt.at_once} + own;", *lines])


def _guarded(kernel: KeptKernel, lines: list[str], *others: str) -> list[str]:
    """What threads do that have places of the row."""
    dealt, rows = dealt_rows(kernel), kernel.axes.row.size
    tests = [f"row < {number(rows)}"] if rows % dealt.at_once else []
    tests += [f"share < {dealt.sharers}"] if dealt.sharers * dealt.at_once < kernel.threads else []
    return when([*tests, *others], lines)


def results(kernel: KeptKernel) -> list[str]:
    """The sums over all places, where several threads have a row met in shared memory, stored."""
    dealt, lines = dealt_rows(kernel), list[str]()
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
    stored = [*known_sums, *scope_lines(kernel.results, kernel.names, 1)]
    if dealt.sharers == 1:
        return _over_dealt(kernel, _guarded(kernel, stored))
    both = [*_guarded(kernel, left), "__syncthreads();"]
    both += _guarded(kernel, stored, "share == 0")
    again = ["__syncthreads();"] if dealt.per_thread > 1 else []
    return [*lines, *_over_dealt(kernel, [*both, *again])]


def _met(total: Accumulator, dealt: DealtRows) -> list[str]:
    """A row's sums of all threads that share it, in their order."""
    name, combine = total.name, combiner(total.op, total.dtype)
    kind = state_type(total.op, total.dtype)
    return [
        f"{kind} {name}_all_met = {name}_met[0][own];",
        *unrolled(
            f"for (int other = 1; other < {dealt.sharers}; ++other)",
            [f"{name}_all_met = {combine}({name}_all_met, {name}_met[other][own]);"],
        ),
    ]
