"""Loops over a thread's vectors of a row, as C++ text, and what is told of vectors at its ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thunder_fuser.codegen.blocks import each, enclosed, function, unrolled, when
from thunder_fuser.codegen.statements import (
    INNER,
    NOT_KNOWN,
    WHOLE,
    form_text,
    load_call,
    number,
    statement_text,
)
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.target import WARP

UNROLL = 4  # vectors whose loads are in flight together, of a row that registers do not hold


def over_vectors(kernel: RowKernel, lines: list[str]) -> list[str]:
    """A loop over the thread's vectors of the row, if there is anything to do."""
    return _vectors(kernel, lines) if lines else []


def _vectors(kernel: RowKernel, lines: list[str]) -> list[str]:
    """A loop over the thread's vectors of the row; unrolled where they are kept in registers."""
    threads = kernel.threads_per_row
    if kernel.splits > 1 or kernel.chunk:
        return _vectors_of_part(kernel, lines)
    last = kernel.axes.columns // kernel.lanes - kernel.has_edges  # whose first may be vector 1
    known = f"k > 0 && (k + 1) * {threads} < {number(last)}"  # other turns may have an end
    if kernel.has_edges:
        return _vectors_inside(kernel, with_inner(kernel, lines, known))
    if kernel.axes.has_runs:
        return _vectors_of_run(kernel, lines)
    if not kernel.is_held:
        size = number(kernel.vector.size)
        head = f"for (int vector = part; vector < {size}; vector += {threads})"
        return unrolled(head, with_inner(kernel, lines), UNROLL)
    inner, size = with_inner(kernel, lines, known), number(kernel.vector.size)
    if kernel.vector.size % threads:
        inner = when([f"(k + 1) * {threads} <= {size} || vector < {size}"], inner)
    return each("k", kernel.vectors_per_thread, [vector_of_thread(kernel), *inner])


def _vectors_of_run(kernel: RowKernel, lines: list[str]) -> list[str]:
    """A loop over the thread's vectors where they are neighbours: the first threads have a k-th."""
    threads, size, run = kernel.threads_per_row, kernel.vector.size, kernel.vectors_per_thread
    if size != threads * run:
        lines = when([f"part < ({number(size)} - k + {run - 1}) / {run}"], lines)
    return each("k", run, [vector_of_thread(kernel), *lines])


def vector_of_thread(kernel: RowKernel) -> str:
    """Which vector of a row without edges is the thread's k-th."""
    run = kernel.vectors_per_thread
    place = f"part * {run} + k" if kernel.axes.has_runs else f"k * {kernel.threads_per_row} + part"
    return f"const int vector = {place};"


def _vectors_inside(kernel: RowKernel, lines: list[str]) -> list[str]:
    """A loop over the thread's vectors of those that lie in the row."""
    threads, (fewest, _) = kernel.threads_per_row, kernel.axes.whole_vectors
    inside = when([f"(k + 1) * {threads} <= {number(fewest)} || vector < last"], lines)
    vector = f"const int vector = first + k * {threads} + part;"
    return each("k", kernel.vectors_per_thread, [vector, *inside])


def _vectors_of_part(kernel: RowKernel, lines: list[str]) -> list[str]:
    """A loop over the thread's vectors of the block's part of the row, or of one after another. The
    vectors between a row's edges begin with its `first`."""
    share, size, threads = kernel.vectors_per_split, kernel.vector.size, kernel.threads_per_row
    share = kernel.chunk * threads or share
    tests = [f"k * {threads} + part < {number(share)}"] if share % threads else []
    first = "first + piece" if kernel.has_edges else "first"
    if kernel.has_edges or size % share:
        tests.append(f"vector < {'last' if kernel.has_edges else number(size)}")
    vector = f"const auto vector = {first} + k * {threads} + part;"
    inside = when(tests, with_inner(kernel, lines))
    return each("k", kernel.vectors_per_thread, [vector, *inside])


def with_inner(kernel: RowKernel, lines: Sequence[str], known: str = "") -> list[str]:
    """What is done for a vector. Where that depends on whether it and the one behind it lie inside
    a shifted row, warps of which all do are told so; in turns where that is `known` the compiler
    is."""
    if not any(INNER in line for line in lines):
        return list(lines)
    last = number(kernel.axes.columns // kernel.lanes)
    of_warp = f"warp > 0 && warp + {WARP} < {last}"
    return [
        *function("done", [f"const auto {INNER}"], lines),
        f"const auto warp = vector - int(threadIdx.x % {WARP});",
        f"if ({f'({known}) || ({of_warp})' if known else of_warp}) done(tf::Yes{{}});",
        "else done(tf::No{});",
    ]


def load_of_row(access: VectorAccess, kernel: RowKernel) -> str:
    """A load among those of a row."""
    return load_call(access, kernel.names, is_whole(access, kernel))


def located(kernel: RowKernel, turn: str) -> list[str]:
    """The indices that tensors hold for the row of that turn."""
    names = {**kernel.names, kernel.axes.turn: turn}
    return [statement_text(s, names) for s in kernel.located]


def is_whole(access: VectorAccess, kernel: RowKernel) -> str:
    """The constant for an access to a row: behind what is of the plane, or of a part of rows that
    are longer, there are the next rows."""
    axes = kernel.axes
    if access.window is None:
        return NOT_KNOWN
    is_of_plane = access.window.extent == axes.rows * axes.columns
    is_part = axes.is_shifted and axes.goes_on(access.offset)
    return WHOLE if is_of_plane or is_part else NOT_KNOWN


def with_whole(
    kernel: RowKernel, lines: Sequence[str], names: Mapping[IterDomain, str] | None = None
) -> list[str]:
    """Loads of a row. Where that depends on whether memory goes on behind their vectors, those of
    all rows but the last one are told so: no thread asks, and they go out together."""
    if not any(WHOLE in line for line in lines):
        return list(lines)
    row = form_text(kernel.axes.row, names or kernel.names)
    fetch = [
        *function("fetch", [f"const auto {WHOLE}"], lines),
        f"if ({row} + 1 < {number(kernel.axes.rows)}) fetch(tf::Yes{{}});",
        "else fetch(tf::No{});",
    ]
    return enclosed(fetch)
