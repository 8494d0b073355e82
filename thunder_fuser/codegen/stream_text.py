"""The stream kernel's body as C++ text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from thunder_fuser.codegen.blocks import block, each, when
from thunder_fuser.codegen.pair_text import taken_in_pairs
from thunder_fuser.codegen.reduce_text import combined, declared
from thunder_fuser.codegen.row_loops import load_of_row, located, with_inner, with_whole
from thunder_fuser.codegen.row_text import (
    held_arrays,
    once_lines,
    reduced,
    scope_lines,
    single_lines,
)
from thunder_fuser.codegen.statements import block_text, load_text, number, vector_type
from thunder_fuser.codegen.tail_text import with_tail
from thunder_fuser.codegen.types import COMPUTE_TYPES, index_type
from thunder_fuser.kernel.row_ir import Reduce
from thunder_fuser.kernel.scopes import Pairs, Scope
from thunder_fuser.kernel.statements import Variable
from thunder_fuser.kernel.streams import StreamKernel


def stream_lines(kernel: StreamKernel) -> list[str]:
    """The statements of the entry point."""
    rows = kernel.rows
    first, second = rows.phases
    kind = index_type(max(rows.reach, rows.rows))
    lines = [
        "const int part = threadIdx.x;",
        f"const {kind} group = {'' if kind == 'int' else f'({kind})'}{block_text(rows)};",
        *located(rows, "turn"),
        *(load_text(a, rows.names) for a in rows.once),
        *declared([*first.reductions, *second.reductions]),
        *_chunks(kernel, _below_the_maximum_so_far(kernel)),
        *_totals(kernel, second.reductions),
        *once_lines(rows.final, rows),
        *_chunks(kernel, _walked(rows.final, kernel)),
        *single_lines(rows),
    ]
    return with_tail(lines, rows)


def _chunks(kernel: StreamKernel, lines: Sequence[str]) -> list[str]:
    """A loop over chunks of the row, with their vectors loaded ahead of `lines`."""
    if not lines:
        return []
    rows = kernel.rows
    held = [f"{vector_type(a)} {a.name}[{kernel.chunk}];" for a in rows.kept]
    loads = [f"{a.name}[k] = {load_of_row(a, rows)};" for a in rows.kept]
    fetched = with_whole(rows, _vectors(kernel, loads))
    step = rows.threads * kernel.chunk
    head = f"for (int start = part; start < {number(rows.vector.size)}; start += {step})"
    return block(head, [*held, *fetched, *lines])


def _vectors(kernel: StreamKernel, lines: Sequence[str]) -> list[str]:
    """A loop over the vectors of a chunk."""
    rows = kernel.rows
    is_cut = rows.vector.size % (rows.threads * kernel.chunk)
    inside = [f"vector < {number(rows.vector.size)}"] if is_cut else []
    vector = f"const int vector = start + k * {rows.threads};"
    return each("k", kernel.chunk, [vector, *when(inside, with_inner(rows, lines))])


def _walked(scope: Scope, kernel: StreamKernel, pairs: Sequence[Pairs] = ()) -> list[str]:
    lines = [*taken_in_pairs(pairs), *scope_lines(scope, kernel.rows)]
    return _vectors(kernel, lines) if lines else []


def _below_the_maximum_so_far(kernel: StreamKernel) -> list[str]:
    """Both phases over one chunk. The finite maximum serves as the row's: with it no difference is
    inf - inf, and a sum that holds nothing yet stays 0."""
    first, second = kernel.rows.phases
    top = kernel.top

    def walk(scope: Scope, pairs: Sequence[Pairs]) -> list[str]:
        return _walked(scope, kernel, pairs)

    kind, name = COMPUTE_TYPES[top.result.dtype], top.accumulator.name
    return [
        *held_arrays(first, kernel.chunk, kernel.rows.lanes),
        f"const {kind} before = tf::finite({name});",
        *once_lines(first.scope, kernel.rows),
        *reduced(first, kernel.rows, walk),
        f"const {kind} {top.result.name} = tf::finite({name});",
        *_scaled(second.reductions, f"before - {top.result.name}"),
        *once_lines(second.scope, kernel.rows),
        *reduced(second, kernel.rows, walk),
    ]


def _totals(kernel: StreamKernel, sums: Sequence[Reduce]) -> list[str]:
    """The row's maximum, and its sums below it."""
    top = kernel.top
    kind, result = COMPUTE_TYPES[top.result.dtype], top.result.name
    parts = [replace(r, result=Variable(f"{r.result.name}_total", r.result.dtype)) for r in sums]
    lines = [
        f"const {kind} own = tf::finite({top.accumulator.name});",
        *combined(kernel.rows.phases[0].reductions, kernel.rows),
        *_scaled(sums, f"own - tf::finite({result})"),
        *combined(parts, kernel.rows),
    ]
    for reduce, part in zip(sums, parts, strict=True):
        value = part.result.name
        if reduce.accumulator.name in kernel.unguarded:
            value += f" + ({result} - {result})"
        lines.append(f"const {COMPUTE_TYPES[reduce.result.dtype]} {reduce.result.name} = {value};")
    return lines


def _scaled(sums: Sequence[Reduce], exponent: str) -> list[str]:
    return [f"{r.accumulator.name} *= tf::fast_exp({exponent});" for r in sums]
