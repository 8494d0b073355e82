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
    Kernel,
    LaneStatement,
    Turn,
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
    if len(kernel.bodies) > 1:
        blocks = number(sum(turn.count for turn in kernel.turns))
        lines += [f"  const int round = blockIdx.x / {blocks};"]
        lines += [f"  const int turn = blockIdx.x % {blocks};"]
    for turn in kernel.turns:
        lines += _indent(_dispatch(turn, kernel))
    return "\n".join([*lines, "}", ""])


def _dispatch(turn: Turn, kernel: Kernel) -> list[str]:
    """A body behind the test of its turn."""
    lines = _body(turn, kernel)
    if len(kernel.bodies) == 1:
        return lines
    if turn is kernel.turns[-1] or turn.body is kernel.bodies[-1]:
        return ["{", *_indent(lines), "}"]
    test = f"if (turn < {number(turn.start + turn.count)}) {{"
    return [test, *_indent(lines), "  return;", "}"]


def _body(turn: Turn, kernel: Kernel) -> list[str]:
    body, names = turn.body, turn.body.names
    lines = _thread_index(turn, kernel)
    lines += [_load(a, names) for a in body.loads]
    vectors = {a.name: _vector_type(a) for a in body.stores}
    lines += [f"{kind} {name};" for name, kind in vectors.items()]
    statements = [_statement(s, names) for s in body.statements]
    if body.lane is not None:
        head = f"for (int lane = 0; lane < {body.lanes}; ++lane) {{"
        statements = ["#pragma unroll", head, *_indent(statements), "}"]
    lines += statements
    return lines + [_store(a, names) for a in body.stores]


def _thread_index(turn: Turn, kernel: Kernel) -> list[str]:
    """The parallel axes' indices from the thread's number within the body, innermost fastest."""
    body, started = turn.body, kernel.rounds * turn.count * kernel.threads
    reach = [max(abs(bound) for bound in form.bounds) for form in body.forms]
    kind = "long long" if max([started, *reach]) >= _INT_LIMIT else "int"
    block = "blockIdx.x"
    if len(kernel.bodies) > 1:
        place = f"turn - {number(turn.start)}" if turn.start else "turn"
        block = f"(round * {number(turn.count)} + {place})"
    wide = f"({kind}){block}" if kind != "int" else block
    lines = [f"const {kind} thread = {wide} * {kernel.threads} + threadIdx.x;"]
    if started != body.threads:
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
