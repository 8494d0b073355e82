"""The group kernel's body as C++ text: rows of few terms part by part, then the others together."""

from __future__ import annotations

from typing_extensions import assert_never

from thunder_fuser.analysis.digits import scale
from thunder_fuser.codegen.split_text import combining, identity
from thunder_fuser.codegen.statements import (
    form_text,
    indent,
    load_call,
    number,
    scope_lines,
    statement_text,
    vector_type,
)
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES, index_type
from thunder_fuser.codegen.values import operand
from thunder_fuser.kernel.group_ir import Between, GroupKernel, GroupSum, Whole
from thunder_fuser.kernel.row_ir import Scope
from thunder_fuser.kernel.statements import forms_of


def group_lines(kernel: GroupKernel) -> list[str]:
    """The statements of the entry point."""
    across, chunks, rows = (
        kernel.threads_across,
        number(kernel.chunks),
        number(kernel.axes.row.size),
    )
    kind, each = _kind(kernel), kernel.rows_per_block
    block = "blockIdx.x" if kind == "int" else f"({kind})blockIdx.x"
    return [
        f"const int part = threadIdx.x / {across};",
        f"const {kind} vector = {block} % {chunks} * {across} + threadIdx.x % {across};",
        f"const {kind} first = {block} / {chunks} * {each};",
        f"const {kind} last = first + {each} < {rows} ? first + {each} : {rows};",
        *(f"{_array(s, 'part', kernel)} {_array(s, 'row', kernel)}" for s in kernel.sums),
        *_stretch(kernel),
        *([] if kernel.pieces is None else [f"{kind} hole_begin = 0, hole = 0;"]),
        *_add(kernel),
        *_finish(kernel),
        *_own_rows(kernel),
        *_shared_rows(kernel),
    ]


def _kind(kernel: GroupKernel) -> str:
    return index_type(kernel.reach)


def _stretch(kernel: GroupKernel) -> list[str]:
    """A function that tells where the terms of a row lie."""
    kind, names = _kind(kernel), kernel.names
    lines = [statement_text(s, names) for s in kernel.stretch.before]
    match kernel.stretch:
        case Between() as between:
            lines += _between(between, kernel)
        case Whole(_, first, last, piece, skip, size):
            is_one = f"{operand(first)} == {operand(last)}"
            if skip >= 0:
                is_one += f" && {operand(first)} != {number(skip)}"
            lines.append(f"begin = {form_text(scale(piece, size), names)};")
            lines.append(f"end = {is_one} ? begin + {number(size)} : begin;")
        case _:
            assert_never(kernel.stretch)
    head = f"const auto stretch = [&](const {kind} row, {kind}& begin, {kind}& end) {{"
    return [head, *indent(lines), "};"]


def _between(stretch: Between, kernel: GroupKernel) -> list[str]:
    kind = _kind(kernel)
    begin, end = operand(stretch.begin), operand(stretch.end)
    if not stretch.is_trusted:
        begin, end = f"({begin} > 0 ? {begin} : 0)", _least(end, number(kernel.axes.term.size))
    lines = [f"begin = ({kind}){begin};", f"end = ({kind}){end};"]
    if stretch.skip >= 0:
        group = form_text(stretch.group, kernel.names)
        lines.append(f"if ({group} == {number(stretch.skip)}) end = begin;")
    return lines


def _least(value: str, limit: str) -> str:
    return f"({value} < {limit} ? {value} : {limit})"


def _add(kernel: GroupKernel) -> list[str]:
    """A function that adds every `step`-th term of a row from `begin`, and one that adds pieces."""
    kind = _kind(kernel)
    clear = [f"{s.name}_part[lane] = {identity(s.op, s.dtype)};" for s in kernel.sums]
    parameters = ", ".join(f"const {kind} {name}" for name in ("row", "begin", "end"))
    head = f"const auto add = [&]({parameters}, const int step) {{"
    lines = [head, *indent([*_per_lane(kernel, clear), *_loop(kernel.loop, kernel)]), "};"]
    if kernel.pieces is None:
        return lines
    head = f"const auto add_pieces = [&]({parameters}, const int step) {{"
    return [*lines, head, *indent(_loop(kernel.pieces.loop, kernel)), "};"]


def _loop(scope: Scope, kernel: GroupKernel) -> list[str]:
    """A loop over batches of terms, whose vectors are loaded before the first is added. In place of
    a term that the last batch lacks, its first one is loaded and added, and that is taken back: in
    a branch, the compiler would load a vector only after others were added."""
    names, kind, batch = kernel.names, _kind(kernel), kernel.batch
    name = "term" if kernel.pieces is None or scope is not kernel.loop else "at"
    places = [f"const {kind} {name} = start + k * step < end ? start + k * step : start;"]
    if name == "at":
        places.append(f"const {kind} term = at < hole_begin ? at : at + hole;")
    places += [statement_text(s, names) for s in scope.before]
    loads = [f"{a.name}[k] = {load_call(a, names)};" for a in scope.loads]
    added = _added(scope, kernel)
    reads_places = any(forms_of(s) for s in scope.statements)
    lines = [
        *(f"{vector_type(a)} {a.name}[{batch}];" for a in scope.loads),
        *_each(batch, [*places, *loads] if loads else []),
        *_each(batch, [*places, *added] if reads_places else added),
    ]
    head = f"for ({kind} start = begin; start < end; start += {batch} * step) {{"
    return [head, *indent(lines), "}"]


def _added(scope: Scope, kernel: GroupKernel) -> list[str]:
    """Term k of a batch is added, if there is one."""
    kept = [
        f"const {COMPUTE_TYPES[s.dtype]} {s.name}_kept = {s.name}_part[lane];" for s in kernel.sums
    ]
    added = [statement_text(s, kernel.names) for s in scope.statements]
    back = [f"if (!has_term) {s.name}_part[lane] = {s.name}_kept;" for s in kernel.sums]
    has_term = "const bool has_term = start + k * step < end;"
    return [has_term, *_per_lane(kernel, [*kept, *added, *back])]


def _each(batch: int, lines: list[str]) -> list[str]:
    """`lines` for every term of a batch."""
    if not lines:
        return []
    return ["#pragma unroll", f"for (int k = 0; k < {batch}; ++k) {{", *indent(lines), "}"]


def _finish(kernel: GroupKernel) -> list[str]:
    """A function that stores what follows from the sums of a row."""
    rounds = [
        f"{s.name}_row[lane] = tf::round_to<{CUDA_TYPES[s.rounded]}>({s.name}_row[lane]);"
        for s in kernel.sums
        if s.rounded is not None
    ]
    head = f"const auto finish = [&](const {_kind(kernel)} row) {{"
    lines = _per_lane(kernel, rounds) if rounds else []
    return [
        head,
        *indent([*lines, *scope_lines(kernel.final, kernel.names, kernel.axes.lanes)]),
        "};",
    ]


def _own_rows(kernel: GroupKernel) -> list[str]:
    """The rows of few terms, each by one part."""
    kind, vectors = _kind(kernel), number(kernel.axes.vector.size)
    own = [f"{s.name}_row[lane] = {s.name}_part[lane];" for s in kernel.sums]
    body = [
        f"{kind} begin, end;",
        "stretch(row, begin, end);",
        f"if (end - begin > {kernel.few}) {{",
        "  is_shared = true;",
        f"}} else if (vector < {vectors}) {{",
        "  add(row, begin, end, 1);",
        *indent(_per_lane(kernel, own)),
        "  finish(row);",
        "}",
    ]
    head = f"for ({kind} row = first + part; row < last; row += {kernel.parts}) {{"
    return ["bool is_shared = false;", head, *indent(body), "}"]


def _shared_rows(kernel: GroupKernel) -> list[str]:
    """The rows of many terms, one after the other: each part adds its share of the terms."""
    kind, parts, vectors = _kind(kernel), kernel.parts, number(kernel.axes.vector.size)
    width, lanes = kernel.threads_across * kernel.axes.lanes, kernel.axes.lanes
    place = f"{lanes} * (threadIdx.x % {kernel.threads_across}) + lane"
    shared = [
        f"__shared__ {COMPUTE_TYPES[s.dtype]} {s.name}_parts[{parts}][{width}];"
        for s in kernel.sums
    ]
    share = [f"{s.name}_parts[part][{place}] = {s.name}_part[lane];" for s in kernel.sums]
    own = [f"{s.name}_row[lane] = {s.name}_part[lane];" for s in kernel.sums]
    meet = [f"{s.name}_row[lane] = {_combined(s, place)};" for s in kernel.sums]
    body = [
        f"{kind} begin, end;",
        "stretch(row, begin, end);",
        f"if (end - begin <= {kernel.few}) continue;",
        f"if (vector < {vectors}) {{",
        *indent([*_share(kernel), *_per_lane(kernel, share)]),
        "}",
        "__syncthreads();",
        f"if (part == 0 && vector < {vectors}) {{",
        *indent(_per_lane(kernel, own)),
        f"  for (int k = 1; k < {parts}; ++k) {{",
        *indent(indent(_per_lane(kernel, meet))),
        "  }",
        "  finish(row);",
        "}",
        "__syncthreads();",
    ]
    head = f"for ({kind} row = first; row < last; ++row) {{"
    return ["if (!__syncthreads_or(is_shared)) return;", *shared, head, *indent(body), "}"]


def _share(kernel: GroupKernel) -> list[str]:
    """The share of a part: whole pieces in the stretch of a row, and the terms around that hole."""
    kind, parts = _kind(kernel), kernel.parts
    if kernel.pieces is None:
        return [f"add(row, begin + part, end, {parts});"]
    size = kernel.pieces.size
    return [
        f"const {kind} from = (begin + {size - 1}) / {size}, to = end / {size};",
        f"hole_begin = from * {size};",
        f"hole = from < to ? (to - from) * {size} : 0;",
        f"add(row, begin + part, end - hole, {parts});",
        f"add_pieces(row, from + part, to, {parts});",
    ]


def _combined(total: GroupSum, place: str) -> str:
    other = f"{total.name}_parts[k][{place}]"
    return combining(total.op, total.dtype, f"{total.name}_row[lane]", other)


def _array(total: GroupSum, what: str, kernel: GroupKernel) -> str:
    return f"{COMPUTE_TYPES[total.dtype]} {total.name}_{what}[{kernel.axes.lanes}];"


def _per_lane(kernel: GroupKernel, statements: list[str]) -> list[str]:
    head = f"for (int lane = 0; lane < {kernel.axes.lanes}; ++lane) {{"
    return ["#pragma unroll", head, *indent(statements), "}"]
