"""Kernel to CUDA C++ text.

Index literals are marked while printing and then set apart (`Source`), so that kernels which differ
in them only are one family.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from thunder_fuser.analysis.digits import Digit, Form, Opaque
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.codegen.prelude import prelude
from thunder_fuser.codegen.source import Parameter, Source
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.codegen.values import expression, lane_index, operand
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.ir import (
    Assign,
    BlockRange,
    Body,
    Kernel,
    LaneStatement,
    VectorAccess,
    WriteElement,
    WriteVector,
)

ENTRY = "kernel"
_MARK = re.compile("\x01(-?\\d+)\x02")
_INT_LIMIT = 2**31


def emit(kernel: Kernel) -> Source:
    """The translation unit of `kernel`: prelude, then one `extern "C"` entry point."""
    code = _kernel_text(kernel)
    pieces = _MARK.split(prelude(code) + code)
    parameters = [Parameter(p.name, p.dtype, True) for p in kernel.pointers]
    parameters += [Parameter(s.name, s.dtype, False) for s in kernel.scalars]
    literals = tuple(map(int, pieces[1::2]))
    fragments = tuple(pieces[::2])
    return Source(ENTRY, fragments, literals, tuple(parameters), kernel.blocks, kernel.threads)


def _kernel_text(kernel: Kernel) -> str:
    parameters = []
    for p in kernel.pointers:
        const = "" if p.is_written else "const "
        restrict = "" if p.is_written and p.is_read else " __restrict__"
        parameters.append(f"{const}{CUDA_TYPES[p.dtype]}*{restrict} {p.name}")
    parameters += [f"{COMPUTE_TYPES[s.dtype]} {s.name}" for s in kernel.scalars]
    lines = [
        f'extern "C" __global__ void __launch_bounds__({kernel.threads})',
        f"{ENTRY}({', '.join(parameters)}) {{",
    ]
    for blocks in kernel.ranges:
        lines += _indent(_range(blocks, kernel))
    return "\n".join([*lines, "}", ""])


def _range(blocks: BlockRange, kernel: Kernel) -> list[str]:
    """A group of bodies behind the test of its block range."""
    lines, start = [], 0
    if len(blocks.bodies) > 1:
        own = f"(blockIdx.x - {number(blocks.start)})" if blocks.start else "blockIdx.x"
        lines.append(f"const int round = {own} / {number(blocks.length)};")
        lines.append(f"const int turn = {own} % {number(blocks.length)};")
    for body, count in zip(blocks.bodies, blocks.counts, strict=True):
        text = _body(body, _block(blocks, start, count), blocks.rounds * count, kernel.threads)
        start += count
        if start < blocks.length:
            lines += [f"if (turn < {number(start)}) {{", *_indent([*text, "return;"]), "}"]
        else:
            lines += ["{", *_indent(text), "}"] if len(blocks.bodies) > 1 else text
    if len(kernel.groups) == 1:
        return lines
    if blocks.end < kernel.blocks:
        return [f"if (blockIdx.x < {number(blocks.end)}) {{", *_indent([*lines, "return;"]), "}"]
    return ["{", *_indent(lines), "}"]


def _block(blocks: BlockRange, start: int, count: int) -> str:
    """The number of a body's block among all its blocks."""
    if len(blocks.bodies) > 1:
        place = f"turn - {number(start)}" if start else "turn"
        return f"(round * {number(count)} + {place})"
    return f"(blockIdx.x - {number(blocks.start)})" if blocks.start else "blockIdx.x"


def _body(body: Body, block: str, blocks: int, threads: int) -> list[str]:
    names = body.names
    lines = _thread_index(body, block, blocks, threads)
    lines += [_load(a, names) for a in body.loads]
    vectors = {a.name: _vector_type(a) for a in body.stores}
    lines += [f"{kind} {name};" for name, kind in vectors.items()]
    statements = [_statement(s, names) for s in body.statements]
    if body.lane is not None:
        head = f"for (int lane = 0; lane < {body.lanes}; ++lane) {{"
        statements = ["#pragma unroll", head, *_indent(statements), "}"]
    lines += statements
    return lines + [_store(a, names) for a in body.stores]


def _thread_index(body: Body, block: str, blocks: int, threads: int) -> list[str]:
    """The parallel axes' indices from the thread's number within the body, innermost fastest."""
    reach = [max(abs(bound) for bound in form.bounds) for form in body.forms]
    kind = "long long" if max([blocks * threads, *reach]) >= _INT_LIMIT else "int"
    wide = f"({kind}){block}" if kind != "int" else block
    lines = [f"const {kind} thread = {wide} * {threads} + threadIdx.x;"]
    lines.append(f"if (thread >= {number(body.threads)}) return;")
    rest = "thread"
    for position in range(len(body.axes) - 1, -1, -1):
        axis, name = body.axes[position], f"i{position}"
        if position == 0:
            lines.append(f"const {kind} {name} = {rest};")
        else:
            size = number(axis.size)
            lines.append(f"const {kind} {name} = {rest} % {size};")
            rest = f"{rest} / {size}"
    return lines


def _load(access: VectorAccess, names: Mapping[IterDomain, str]) -> str:
    arguments = f"{CUDA_TYPES[access.dtype]}, {access.length}, {access.access_bytes}"
    offset = form_text(access.offset, names)
    return f"const auto {access.name} = tf::load<{arguments}>({access.pointer} + {offset});"


def _store(access: VectorAccess, names: Mapping[IterDomain, str]) -> str:
    offset = form_text(access.offset, names)
    store = "store_streaming" if access.is_streaming else "store"
    return f"tf::{store}<{access.access_bytes}>({access.pointer} + {offset}, {access.name});"


def _vector_type(access: VectorAccess) -> str:
    return f"tf::Vec<{CUDA_TYPES[access.dtype]}, {access.length}>"


def _statement(statement: LaneStatement, names: Mapping[IterDomain, str]) -> str:
    def form(f: Form) -> str:
        return form_text(f, names)

    def test(windows: Sequence[Window]) -> str:
        return " && ".join(_window(w, form(w.form)) for w in windows)

    match statement:
        case Assign(variable, value):
            kind = COMPUTE_TYPES[variable.dtype]
            return (
                f"const {kind} {variable.name} = {expression(value, variable.dtype, form, test)};"
            )
        case WriteVector(vector, weight, delta, value, dtype):
            place = f"{vector}.v[{lane_index(weight, delta)}]"
            return f"{place} = tf::convert<{CUDA_TYPES[dtype]}>({operand(value)});"
        case WriteElement(pointer, offset, value, dtype):
            converted = f"tf::convert<{CUDA_TYPES[dtype]}>({operand(value)})"
            return f"{pointer}[{form(offset)}] = {converted};"


def _window(window: Window, text: str) -> str:
    """One comparison where the other side can never be left."""
    low, high = window.form.bounds
    tests = []
    if low < 0:
        tests.append(f"{text} >= 0")
    if high >= window.extent:
        tests.append(f"{text} < {number(window.extent)}")
    return " && ".join(tests)


def form_text(form: Form, names: Mapping[IterDomain, str]) -> str:
    """A form as a C expression, in parentheses unless it is one term."""
    parts = []
    for weight, digit in form.terms:
        text = _digit_text(digit, names)
        parts.append(text if weight == 1 else f"{number(weight)} * {text}")
    if form.constant or not parts:
        parts.append(number(form.constant))
    return parts[0] if len(parts) == 1 and len(form.terms) == 0 else f"({' + '.join(parts)})"


def _digit_text(digit: Digit, names: Mapping[IterDomain, str]) -> str:
    base = digit.base
    text = form_text(base.form, names) if isinstance(base, Opaque) else names[base]
    if digit.stride > 1:
        text = f"({text} / {number(digit.stride)})"
    return text if digit.is_outermost else f"({text} % {number(digit.extent)})"


def number(value: int) -> str:
    """An index literal, marked so that `Source` can set it apart."""
    return f"\x01{value}\x02"


def _indent(lines: Sequence[str]) -> list[str]:
    return [f"  {line}" if not line.startswith("#") else line for line in lines]
