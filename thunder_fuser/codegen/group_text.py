"""The group kernel's body as C++ text: rows of few terms part by part, then the others together."""

from __future__ import annotations

from math import gcd

from typing_extensions import assert_never

from thunder_fuser.analysis.digits import ceil_div, scale
from thunder_fuser.codegen.blocks import block, each, function, unrolled, when
from thunder_fuser.codegen.digit_text import digit_lines
from thunder_fuser.codegen.group_parts_text import (
    few_terms,
    index_kind,
    is_shared,
    least,
    per_lane,
    row_sum,
    row_vectors,
    summed,
)
from thunder_fuser.codegen.split_text import combining, identity
from thunder_fuser.codegen.statements import (
    address,
    form_text,
    load_call,
    number,
    scope_lines,
    statement_text,
    vector_type,
)
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.codegen.values import operand, round_text
from thunder_fuser.kernel.group_ir import Between, GroupKernel, GroupSum, Whole
from thunder_fuser.kernel.scopes import Scope
from thunder_fuser.kernel.statements import forms_of

ENDS = 8  # of rows side by side, of 4 bytes, which lie in one sector


def group_lines(kernel: GroupKernel) -> list[str]:
    """The statements of the entry point."""
    chunks, rows = number(kernel.chunks), number(kernel.axes.row.size)
    kind, each, block = index_kind(kernel), kernel.rows_per_block, _block(kernel)
    across = kernel.threads_across
    return [
        *_beside(kernel),
        f"const int part = threadIdx.x / {across};",
        f"const {kind} vector = {block} % {chunks} * {across} + threadIdx.x % {across};",
        f"const {kind} first = {block} / {chunks} * {each};",
        f"const {kind} last = first + {each} < {rows} ? first + {each} : {rows};",
        *(f"{_array(s, 'part', kernel)} {_array(s, 'row', kernel)}" for s in kernel.sums),
        *_stretch(kernel),
        *([] if kernel.pieces is None else [f"{kind} hole_begin = 0, hole = 0;"]),
        *_clear(kernel),
        *_add(kernel),
        *_finish(kernel),
        "bool has_many = false;",
        *_dealt_rows(kernel, "has_many = true;"),
        *few_terms(kernel),
        "if (!__syncthreads_or(has_many)) return;",
        *_shared_rows(kernel),
    ]


def _dealt_rows(kernel: GroupKernel, found: str) -> list[str]:
    """What is done with each row of many terms that is dealt to the block. They are dealt to all
    blocks in turns: where they lie side by side, as the most frequent words of a language do, they
    are not one block's work. A turn is of rows whose ends one sector of memory has."""
    kind, each, rows = index_kind(kernel), kernel.rows_per_block, number(kernel.axes.row.size)
    blocks, turn = number(ceil_div(kernel.axes.row.size, each)), gcd(each, ENDS)
    own = f"{_block(kernel)} / {number(kernel.chunks)}"
    body = [
        f"const {kind} turn = {own} + {blocks} * (k / {turn});",
        f"const {kind} dealt = {turn} * turn + k % {turn};",
        f"const {kind} row = dealt < {rows} ? dealt : {rows} - 1;",
        f"{kind} begin, end;",
        "stretch(row, begin, end);",
        f"if (dealt == row && ({is_shared(kernel)})) {found}",
    ]
    return unrolled(f"for (int k = threadIdx.x; k < {each}; k += {kernel.threads})", body)


def _beside(kernel: GroupKernel) -> list[str]:
    """What the blocks before those of the rows do."""
    if kernel.beside is None:
        return []
    body = [*digit_lines(kernel.beside), "return;"]
    return when([f"blockIdx.x < {number(kernel.beside.blocks)}"], body)


def _block(kernel: GroupKernel) -> str:
    """Which of the blocks of rows it is."""
    block = "blockIdx.x" if index_kind(kernel) == "int" else f"({index_kind(kernel)})blockIdx.x"
    return block if kernel.beside is None else f"({block} - {number(kernel.beside.blocks)})"


def _stretch(kernel: GroupKernel) -> list[str]:
    """A function that tells where the terms of a row lie."""
    kind, names = index_kind(kernel), kernel.names
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
    return function("stretch", [f"const {kind} row", f"{kind}& begin", f"{kind}& end"], lines)


def _between(stretch: Between, kernel: GroupKernel) -> list[str]:
    kind = index_kind(kernel)
    begin, end = operand(stretch.begin), operand(stretch.end)
    if not stretch.is_trusted:
        begin, end = f"({begin} > 0 ? {begin} : 0)", least(end, number(kernel.axes.term.size))
    lines = [f"begin = ({kind}){begin};", f"end = ({kind}){end};"]
    if stretch.skip >= 0:
        group = form_text(stretch.group, kernel.names)
        lines.append(f"if ({group} == {number(stretch.skip)}) end = begin;")
    return lines


def _clear(kernel: GroupKernel) -> list[str]:
    clear = [f"{s.name}_part[lane] = {identity(s.op, s.dtype)};" for s in kernel.sums]
    return function("clear", [], per_lane(kernel, clear))


def _add(kernel: GroupKernel) -> list[str]:
    """A function that adds every `step`-th term of a row from `begin`, and one that adds pieces."""
    kind = index_kind(kernel)
    parameters = [*(f"const {kind} {name}" for name in ("row", "begin", "end")), "const int step"]
    loops = {"add": kernel.loop}
    if kernel.pieces is not None:
        loops["add_pieces"] = kernel.pieces.loop
    made = (function(name, parameters, _loop(loop, kernel)) for name, loop in loops.items())
    return [line for lines in made for line in lines]


def _loop(scope: Scope, kernel: GroupKernel) -> list[str]:
    """A loop over batches of terms, whose vectors are loaded before the first is added. In place of
    a term that the last batch lacks, its first one is loaded and added, and that is taken back: in
    a branch, the compiler would load a vector only after others were added."""
    names, kind, batch = kernel.names, index_kind(kernel), kernel.batch
    name = "term" if kernel.pieces is None or scope is not kernel.loop else "at"
    places = [f"const {kind} {name} = start + k * step < end ? start + k * step : start;"]
    if name == "at":
        places.append(f"const {kind} term = at < hole_begin ? at : at + hole;")
    places += [statement_text(s, names) for s in scope.before]
    of_rows = [a for a in scope.loads if a.end is not None and scope is kernel.loop]
    moves = [f"{a.name}[k] = {load_call(a, names)};" for a in scope.loads if a not in of_rows]
    moves += [f"{a.name}_at[k] = {address(a, names)};" for a in of_rows]
    added = _added(scope, kernel)
    reads_places = any(forms_of(s) for s in scope.statements)
    lines = [
        *(f"{vector_type(a)} {a.name}[{batch}];" for a in scope.loads),
        *(f"const {CUDA_TYPES[a.dtype]}* {a.name}_at[{batch}];" for a in of_rows),
        *each("k", batch, [*places, *moves] if moves else []),
        *(line for a in of_rows for line in row_vectors(a, a.name, f"{a.name}_at", batch, names)),
        *each("k", batch, [*places, *added] if reads_places else added),
    ]
    return block(f"for ({kind} start = begin; start < end; start += {batch} * step)", lines)


def _added(scope: Scope, kernel: GroupKernel) -> list[str]:
    """Term k of a batch is added, if there is one."""
    kept = [
        f"const {COMPUTE_TYPES[s.dtype]} {s.name}_kept = {s.name}_part[lane];" for s in kernel.sums
    ]
    added = [statement_text(s, kernel.names) for s in scope.statements]
    back = [f"if (!has_term) {s.name}_part[lane] = {s.name}_kept;" for s in kernel.sums]
    has_term = "const bool has_term = start + k * step < end;"
    return [has_term, *per_lane(kernel, [*kept, *added, *back])]


def _finish(kernel: GroupKernel) -> list[str]:
    """A function that stores what follows from the sums of a row."""
    rounds = [
        f"{row_sum(s)} = {round_text(row_sum(s), s.rounded)};"
        for s in kernel.sums
        if s.rounded is not None
    ]
    final = scope_lines(kernel.final, kernel.names, kernel.axes.lanes)
    return function(
        "finish", [f"const {index_kind(kernel)} row"], [*per_lane(kernel, rounds), *final]
    )


def _shared_rows(kernel: GroupKernel) -> list[str]:
    """The rows of many terms, one after the other: each part adds its share of the terms."""
    kind, parts, vectors = index_kind(kernel), kernel.parts, number(kernel.axes.vector.size)
    across, lanes = kernel.threads_across, kernel.axes.lanes
    place = f"{lanes} * (threadIdx.x % {across}) + lane"
    shared = [
        f"__shared__ {COMPUTE_TYPES[s.dtype]} {s.name}_parts[{parts}][{across * lanes}];"
        for s in kernel.sums
    ]
    share = [f"{s.name}_parts[part][{place}] = {s.name}_part[lane];" for s in kernel.sums]
    meet = [f"{row_sum(s)} = {_combined(s, place)};" for s in kernel.sums]
    others = block(f"for (int k = 1; k < {parts}; ++k)", per_lane(kernel, meet))
    is_there = f"vector < {vectors}"
    body = [
        f"const {kind} row = many[k];",
        f"{kind} begin, end;",
        "stretch(row, begin, end);",
        *when([is_there], ["clear();", *_share(kernel), *per_lane(kernel, share)]),
        "__syncthreads();",
        *when(["part == 0", is_there], [*summed(kernel), *others, "finish(row);"]),
        "__syncthreads();",
    ]
    return [
        f"__shared__ {kind} many[{kernel.rows_per_block}];",
        *["__shared__ int found;", "if (threadIdx.x == 0) found = 0;", "__syncthreads();"],
        *_dealt_rows(kernel, "many[atomicAdd(&found, 1)] = row;"),
        *["__syncthreads();", *shared],
        *block("for (int k = 0; k < found; ++k)", body),
    ]


def _share(kernel: GroupKernel) -> list[str]:
    """The share of a part: whole pieces in the stretch of a row, and the terms around that hole."""
    kind, parts = index_kind(kernel), kernel.parts
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
    return combining(total.op, total.dtype, row_sum(total), other)


def _array(total: GroupSum, what: str, kernel: GroupKernel) -> str:
    return f"{COMPUTE_TYPES[total.dtype]} {total.name}_{what}[{kernel.axes.lanes}];"
