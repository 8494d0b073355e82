"""Rows that pass through shared memory as one stretch of vectors, as C++ text."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.codegen.blocks import enclosed, unrolled, when
from thunder_fuser.codegen.shared_text import arrays_in_shared
from thunder_fuser.codegen.statements import block_text, number
from thunder_fuser.codegen.types import CUDA_TYPES, index_type
from thunder_fuser.kernel.row_ir import RowKernel, Staged

UNROLL = 4  # vectors of a stretch that a thread has on their way together


def staged_lines(kernel: RowKernel) -> list[str]:
    """The stretches of a block, on their way to shared memory and awaited."""
    return [
        *stretches(kernel),
        start_text(kernel, f"{block_text(kernel)} * {number(kernel.rows_per_block)}"),
        *_places(kernel),
        *(line for staged in kernel.staged for line in _copied(staged, kernel)),
        "tf::commit_copies();",
        "tf::await_copies<0>();",
        "__syncthreads();",
    ]


def _places(kernel: RowKernel) -> list[str]:
    """Where the thread's row lies in the stretches, and where these begin if not with a row."""
    columns, lanes = number(kernel.axes.columns), kernel.stretch_begins
    if lanes == 1:
        return [f"const int place = int((group - start) * {columns});"]
    kind = index_of_stretch(kernel)
    return [
        f"const {kind} begin = start * {columns} / {lanes} * {lanes};",
        f"const int place = int(group * {columns} - begin);",
    ]


def taken(staged: Staged, kernel: RowKernel) -> str:
    """A vector of the thread's row, to the registers that keep it."""
    kind = f"{type_of(staged)}, {kernel.lanes}, {_bytes(staged, kernel)}"
    return f"{staged.access.name}[k] = tf::load<{kind}>({_place(staged, kernel)});"


def filling(lines: Sequence[str], kernel: RowKernel) -> list[str]:
    """What is done for one vector, its stores to where the stretch is filled."""
    kept = lines[: len(lines) - len(kernel.final.stores)]
    return [*kept, *(_filled(staged, kernel) for staged in kernel.filled)]


def filled_lines(kernel: RowKernel) -> list[str]:
    """The stretches that all threads of the block have filled, to memory."""
    stores = []
    for staged in kernel.filled:
        for pointer in staged.pointers:
            move = f"tf::store<16>({pointer} + at, {_vectors(staged)}[k]);"
            store = _over_own if kernel.stretch_begins > 1 else _over_stretch
            stores += store(staged, kernel, move, single_store(staged, pointer))
    return ["__syncthreads();", *_own_rows(kernel), *stores] if stores else []


def single_store(staged: Staged, pointer: str) -> str:
    """An element of a stretch that is no part of a whole vector, to memory."""
    return f"{pointer}[at] = {staged.name}[place];"


def stretches(kernel: RowKernel) -> list[str]:
    """Shared memory for what is staged, a slot for each turn on its way, and what is filled."""
    slots = max(kernel.slots, 1)
    arrays = [
        (s.slots_name if kernel.slots else s.name, type_of(s), slots * kernel.staged_bytes(s))
        for s in kernel.staged
    ]
    arrays += [
        (filled.name, type_of(filled), kernel.staged_bytes(filled)) for filled in kernel.filled
    ]
    return arrays_in_shared(arrays)


def start_text(kernel: RowKernel, row: str) -> str:
    """The first row of a block's stretches."""
    kind = index_of_stretch(kernel)
    return f"const {kind} start = {'' if kind == 'int' else f'({kind})'}{row};"


def _copied(staged: Staged, kernel: RowKernel) -> list[str]:
    at = (
        "at"
        if staged.elements == kernel.rows * staged.per_row
        else f"at % {number(staged.elements)}"
    )
    move = f"tf::copy_async<16>({_vectors(staged)}, k, {staged.access.pointer} + {at});"
    return _over_stretch(staged, kernel, move, single_load(staged))


def single_load(staged: Staged) -> str:
    """The same from memory."""
    return f"{staged.name}[place] = {staged.access.pointer}[at];"


def _over_stretch(staged: Staged, kernel: RowKernel, move: str, single: str) -> list[str]:
    """A loop over the vectors of a stretch, as far as there are rows, with a `move` of each."""
    vectors = _over_vectors(staged, kernel, move, f"at < {number(whole_vectors(staged, kernel))}")
    return [*vectors, *over_rest(staged, kernel, single)]


def _over_vectors(staged: Staged, kernel: RowKernel, move: str, test: str) -> list[str]:
    """A loop over the vectors of a stretch, with a `move` of each of which a `test` holds."""
    kind, lanes = index_of_stretch(kernel), staged.lanes
    vectors = number(kernel.staged_length(staged) // lanes)
    head = f"for (int k = threadIdx.x; k < {vectors}; k += {kernel.threads})"
    at = f"const {kind} at = {_begin(staged, kernel)} + k * {lanes};"
    return unrolled(head, [at, f"if ({test}) {move}"], UNROLL)


def _own_rows(kernel: RowKernel) -> list[str]:
    """Where the block's rows are in stretches that do not begin with one."""
    if kernel.stretch_begins == 1:
        return []
    columns, rows = number(kernel.axes.columns), number(kernel.rows_per_block)
    left = f"{number(kernel.rows)} - start"
    return [
        f"const int own = int(start * {columns} - begin);",
        f"const int end = own + int({left} < {rows} ? {left} : {rows}) * {columns};",
    ]


def _over_own(staged: Staged, kernel: RowKernel, move: str, single: str) -> list[str]:
    """The same of vectors that have elements of the block's rows alone, and of the others what is
    the block's."""
    lanes = staged.lanes
    test = f"k * {lanes} >= own && k * {lanes} + {lanes} <= end"
    return [*_over_vectors(staged, kernel, move, test), *_edges(staged, kernel, single)]


def _edges(staged: Staged, kernel: RowKernel, single: str) -> list[str]:
    """A `single` move of each element of a block's rows in vectors that have others too."""
    kind, lanes = index_of_stretch(kernel), staged.lanes
    last = lanes - 1
    ends = [
        ("own + threadIdx.x", f"< (own + {last}) / {lanes} * {lanes}"),
        ("end - 1 - threadIdx.x", f">= end / {lanes} * {lanes}"),
    ]
    edges = []
    for place, test in ends:
        at = [f"const int place = {place};", f"const {kind} at = begin + place;"]
        edges += enclosed([*at, f"if (place {test}) {single}"])
    return when([f"threadIdx.x < {last}"], edges)


def over_rest(staged: Staged, kernel: RowKernel, single: str) -> list[str]:
    """If the plane ends inside a vector, a thread for each element of that has a `single` move, in
    the stretch in which it lies."""
    rest = kernel.rows * staged.per_row - whole_vectors(staged, kernel)
    if not (rest or kernel.axes.ends):
        return []
    kind, size = index_of_stretch(kernel), kernel.staged_length(staged)
    body = [
        f"const {kind} at = {number(whole_vectors(staged, kernel))} + threadIdx.x;",
        f"const {kind} place = at - {_begin(staged, kernel)};",
        f"if (place >= 0 && place < {number(size)}) {single}",
    ]
    return when([f"threadIdx.x < {number(rest)}"], body)


def first_of(staged: Staged) -> str:
    """Where a stretch begins in its tensor."""
    return "start" if staged.per_row == 1 else f"start * {number(staged.per_row)}"


def _begin(staged: Staged, kernel: RowKernel) -> str:
    """The same, or where the vector begins that a block's rows begin in."""
    return "begin" if kernel.stretch_begins > 1 else first_of(staged)


def whole_vectors(staged: Staged, kernel: RowKernel) -> int:
    """Elements of all rows, as far as they fill vectors."""
    return kernel.rows * staged.per_row // staged.lanes * staged.lanes


def index_of_stretch(kernel: RowKernel) -> str:
    """Of a place in the plane, up to the end of the last block's stretch."""
    return index_type(kernel.reach + kernel.rows_per_block * kernel.axes.columns)


def _place(staged: Staged, kernel: RowKernel) -> str:
    """Where the thread's vector lies in a stretch."""
    vector = "vector" if kernel.lanes == 1 else f"{kernel.lanes} * vector"
    return f"{staged.name} + place + {vector}"


def _filled(staged: Staged, kernel: RowKernel) -> str:
    place = f"{_place(staged, kernel)}, {staged.access.name}"
    return f"tf::store<{_bytes(staged, kernel)}>({place});"


def _bytes(staged: Staged, kernel: RowKernel) -> int:
    """Of one access to a stretch, in which vectors are aligned."""
    return min(kernel.lanes * staged.access.dtype.itemsize, MAX_ALIGNMENT)


def _vectors(staged: Staged) -> str:
    return f"reinterpret_cast<tf::Vec<{type_of(staged)}, {staged.lanes}>*>({staged.name})"


def type_of(staged: Staged) -> str:
    """Of an element of a stretch."""
    return CUDA_TYPES[staged.access.dtype]
