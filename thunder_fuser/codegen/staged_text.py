"""Rows that pass through shared memory as one stretch of vectors, as C++ text."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.codegen.statements import block_text, indent, number
from thunder_fuser.codegen.types import CUDA_TYPES, index_type
from thunder_fuser.kernel.row_ir import RowKernel, Staged


def staged_lines(kernel: RowKernel) -> list[str]:
    """The stretches of a block, on their way to shared memory and awaited."""
    kind = _index_type(kernel)
    wide = "" if kind == "int" else f"({kind})"
    share = number(kernel.rows_per_block * kernel.axes.columns)
    lines, start = ["TF_DYNAMIC_SHARED(unsigned char, shared);"], 0
    for staged in (*kernel.staged, *kernel.filled):
        place = f"shared + {start}" if start else "shared"
        array = f"{_type(staged)}* const {staged.name}"
        lines.append(f"{array} = reinterpret_cast<{_type(staged)}*>({place});")
        start += kernel.staged_bytes(staged)
    lines += [
        f"const {kind} first = {wide}{block_text(kernel)} * {share};",
        f"const int place = int(group * {number(kernel.axes.columns)} - first);",
    ]
    copies = [line for staged in kernel.staged for line in _copied(staged, kernel)]
    return [*lines, *copies, "tf::commit_copies();", "tf::await_copies<0>();", "__syncthreads();"]


def taken(staged: Staged, kernel: RowKernel) -> str:
    """An element of the thread's row, to the register that keeps it."""
    return f"{staged.access.name}[k].v[0] = {_element(staged)};"


def filling(lines: Sequence[str], kernel: RowKernel) -> list[str]:
    """What is done for one element, its stores to where the stretch is filled."""
    kept = lines[: len(lines) - len(kernel.filled)]
    return [*kept, *(f"{_element(s)} = {s.access.name}.v[0];" for s in kernel.filled)]


def filled_lines(kernel: RowKernel) -> list[str]:
    """The stretches that all threads of the block have filled, to memory."""
    stores = []
    for staged in kernel.filled:
        move = f"tf::store<16>({staged.access.pointer} + at, {_vectors(staged)}[k]);"
        single = f"{staged.access.pointer}[at + lane] = {staged.name}[{_lane(staged)}];"
        stores += _over_stretch(staged, kernel, move, single)
    return ["__syncthreads();", *stores] if stores else []


def _copied(staged: Staged, kernel: RowKernel) -> list[str]:
    whole = kernel.rows * kernel.axes.columns
    at = "at" if staged.elements == whole else f"at % {number(staged.elements)}"
    move = f"tf::copy_async<16>({_vectors(staged)}, k, {staged.access.pointer} + {at});"
    single = f"{staged.name}[{_lane(staged)}] = {staged.access.pointer}[at + lane];"
    return _over_stretch(staged, kernel, move, single)


def _over_stretch(staged: Staged, kernel: RowKernel, move: str, single: str) -> list[str]:
    """A loop over the vectors of a stretch, as far as there are rows: a `move` of each, and a
    `single` one for every element of a vector in which the plane ends."""
    vectors = kernel.rows_per_block * kernel.axes.columns // staged.lanes
    kind, whole = _index_type(kernel), kernel.rows * kernel.axes.columns
    body = [f"const {kind} at = first + k * {staged.lanes};"]
    if whole % staged.lanes or kernel.axes.ends:
        body += [
            f"if (at + {staged.lanes} <= {number(whole)}) {move}",
            f"else for (int lane = 0; at + lane < {number(whole)}; ++lane) {single}",
        ]
    else:
        body.append(f"if (at < {number(whole)}) {move}")
    head = f"for (int k = threadIdx.x; k < {number(vectors)}; k += {kernel.threads}) {{"
    return ["#pragma unroll 4", head, *indent(body), "}"]


def _index_type(kernel: RowKernel) -> str:
    """Of a place in the plane, up to the end of the last block's stretch."""
    return index_type(kernel.reach + kernel.rows_per_block * kernel.axes.columns)


def _element(staged: Staged) -> str:
    return f"{staged.name}[place + vector]"


def _lane(staged: Staged) -> str:
    """The place in a stretch of an element of its vector k."""
    return f"k * {staged.lanes} + lane"


def _vectors(staged: Staged) -> str:
    return f"reinterpret_cast<tf::Vec<{_type(staged)}, {staged.lanes}>*>({staged.name})"


def _type(staged: Staged) -> str:
    return CUDA_TYPES[staged.access.dtype]
