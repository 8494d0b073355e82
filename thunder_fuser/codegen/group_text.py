"""The group kernel's body as C++ text: rows of few terms part by part, then the others together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import assert_never

from thunder_fuser.analysis.digits import Form, ceil_div, scale
from thunder_fuser.codegen.blocks import block, each, function, otherwise, unrolled, when
from thunder_fuser.codegen.digit_text import digit_lines
from thunder_fuser.codegen.split_text import combining, identity
from thunder_fuser.codegen.statements import (
    address,
    end_of,
    form_text,
    load_call,
    number,
    row_call,
    scope_lines,
    statement_text,
    vector_type,
)
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES, index_type
from thunder_fuser.codegen.values import operand, round_text
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.group_ir import Between, GroupKernel, GroupSum, Whole
from thunder_fuser.kernel.row_ir import Scope
from thunder_fuser.kernel.statements import VectorAccess, forms_of
from thunder_fuser.schedule.groups import LEAST_COPIED


def group_lines(kernel: GroupKernel) -> list[str]:
    """The statements of the entry point."""
    chunks, rows = number(kernel.chunks), number(kernel.axes.row.size)
    kind, each, block = _kind(kernel), kernel.rows_per_block, _block(kernel)
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
        *_few_terms(kernel),
        "if (!__syncthreads_or(has_many)) return;",
        *_shared_rows(kernel),
    ]


def _dealt_rows(kernel: GroupKernel, found: str) -> list[str]:
    """What is done with each row of many terms that is dealt to the block. They are dealt to all
    blocks in turns: where they lie side by side, as the most frequent words of a language do, they
    are not one block's work."""
    kind, each, rows = _kind(kernel), kernel.rows_per_block, number(kernel.axes.row.size)
    blocks = number(ceil_div(kernel.axes.row.size, each))
    body = [
        f"const {kind} dealt = {_block(kernel)} / {number(kernel.chunks)} + {blocks} * k;",
        f"const {kind} row = dealt < {rows} ? dealt : {rows} - 1;",
        f"{kind} begin, end;",
        "stretch(row, begin, end);",
        f"if (dealt == row && ({_is_shared(kernel)})) {found}",
    ]
    return unrolled(f"for (int k = threadIdx.x; k < {each}; k += {kernel.threads})", body)


def _few_terms(kernel: GroupKernel) -> list[str]:
    """The rows of few terms, each by one part."""
    if kernel.batch_held:
        return _held_rows(kernel)
    return _own_rows(kernel) if kernel.ahead == 1 else _rows_ahead(kernel)


def _beside(kernel: GroupKernel) -> list[str]:
    """What the blocks before those of the rows do."""
    if kernel.beside is None:
        return []
    body = [*digit_lines(kernel.beside), "return;"]
    return when([f"blockIdx.x < {number(kernel.beside.blocks)}"], body)


def _block(kernel: GroupKernel) -> str:
    """Which of the blocks of rows it is."""
    block = "blockIdx.x" if _kind(kernel) == "int" else f"({_kind(kernel)})blockIdx.x"
    return block if kernel.beside is None else f"({block} - {number(kernel.beside.blocks)})"


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
    return function("stretch", [f"const {kind} row", f"{kind}& begin", f"{kind}& end"], lines)


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


def _clear(kernel: GroupKernel) -> list[str]:
    clear = [f"{s.name}_part[lane] = {identity(s.op, s.dtype)};" for s in kernel.sums]
    return function("clear", [], _per_lane(kernel, clear))


def _add(kernel: GroupKernel) -> list[str]:
    """A function that adds every `step`-th term of a row from `begin`, and one that adds pieces."""
    kind = _kind(kernel)
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
    names, kind, batch = kernel.names, _kind(kernel), kernel.batch
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
        *(line for a in of_rows for line in _of_rows(a, a.name, f"{a.name}_at", batch, names)),
        *each("k", batch, [*places, *added] if reads_places else added),
    ]
    return block(f"for ({kind} start = begin; start < end; start += {batch} * step)", lines)


def _of_rows(
    access: VectorAccess,
    to: str,
    at: str,
    count: int,
    names: Mapping[IterDomain, str],
    index: str = "k",
    before: Sequence[str] = (),
    test: str = "",
) -> list[str]:
    """So many vectors of rows, on their way together. Where memory ends inside a word, one branch
    is around all of them: behind its own each would be waited for before the next is asked for."""

    def moved(move: str) -> list[str]:
        load = row_call(move, access, f"{at}[{index}]", names, test=test)
        return each(index, count, [*before, f"{to}[{index}] = {load};"])

    if access.end is None:
        return moved("load_row")
    goes_on = [f"tf::end_before<{access.length}>({at}, {end_of(access)})"]
    return otherwise(when(goes_on, moved("load_row")), moved("row_elements"))


def _added(scope: Scope, kernel: GroupKernel) -> list[str]:
    """Term k of a batch is added, if there is one."""
    kept = [
        f"const {COMPUTE_TYPES[s.dtype]} {s.name}_kept = {s.name}_part[lane];" for s in kernel.sums
    ]
    added = [statement_text(s, kernel.names) for s in scope.statements]
    back = [f"if (!has_term) {s.name}_part[lane] = {s.name}_kept;" for s in kernel.sums]
    has_term = "const bool has_term = start + k * step < end;"
    return [has_term, *_per_lane(kernel, [*kept, *added, *back])]


def _finish(kernel: GroupKernel) -> list[str]:
    """A function that stores what follows from the sums of a row."""
    rounds = [
        f"{_row(s)} = {round_text(_row(s), s.rounded)};"
        for s in kernel.sums
        if s.rounded is not None
    ]
    final = scope_lines(kernel.final, kernel.names, kernel.axes.lanes)
    return function("finish", [f"const {_kind(kernel)} row"], [*_per_lane(kernel, rounds), *final])


def _held_rows(kernel: GroupKernel) -> list[str]:
    """The same of a block that has its terms window by window. It first asks where those of each
    row lie; rows between two of many terms have theirs side by side."""
    kind, threads = _kind(kernel), kernel.threads
    slots = 2 * kernel.window * kernel.threads_across
    known = [
        f"const {kind} row = first + k;",
        f"{kind} begin, end;",
        "stretch(row, begin, end);",
        "stretches[k].v[0] = begin, stretches[k].v[1] = end;",
        f"is_shared = is_shared || {_is_shared(kernel)};",
    ]
    search = [
        f"const {kind} row = until, begin = begin_of(row), end = end_of(row);",
        f"if ({_is_shared(kernel)}) break;",
    ]
    span = [
        "until = last;",
        *when(["is_shared"], ["until = top;", *block("for (; until < last; ++until)", search)]),
        *when(["until > top"], _span(kernel)),
    ]
    row = [f"const {kind} row"]
    return [
        "bool is_shared = false;",
        *(f"__shared__ {vector_type(a)} {a.name}_terms[{slots}];" for a in kernel.loop.loads),
        f"__shared__ tf::Vec<{kind}, 2> stretches[{kernel.rows_per_block}];",
        *unrolled(f"for (int k = threadIdx.x; k < last - first; k += {threads})", known, 1),
        "is_shared = __syncthreads_or(is_shared);",
        *function("begin_of", row, ["return stretches[row - first].v[0];"]),
        *function("end_of", row, ["return stretches[row - first].v[1];"]),
        f"const int own = tf::settled(int(threadIdx.x % {kernel.threads_across}));",
        *(f"const auto {a.name}_own = {_along(a, kernel)};" for a in kernel.loop.loads),
        *block(f"for ({kind} top = first, until; top < last; top = until + 1)", span),
    ]


def _span(kernel: GroupKernel) -> list[str]:
    """The rows from `top` to before `until`: the next window of their terms is on its way while a
    part adds what this one has of its rows."""
    kind, window = _kind(kernel), kernel.window
    whole, part = (f"fetch(stop, side ^ 1, tf::{answer}());" for answer in ("Yes", "No"))
    walk = [
        f"const {kind} stop = {_least(f'start + {window}', 'to')};",
        *otherwise(when([f"stop + {window} <= to"], [whole]), [part], "stop < to"),
        "tf::commit_copies();",
        "if (start < from) continue;",
        "tf::await_copies<1>();",
        "__syncthreads();",
        *_window_rows(kernel),
        "__syncthreads();",
        "if (stop == to) break;",
    ]
    parameters = [f"const {kind} start", "const int side", "const auto is_whole"]
    return [
        f"const {kind} from = begin_of(top), to = end_of(until - 1);",
        *function("fetch", parameters, _fetch(kernel)),
        f"{kind} row = top + part;",
        "clear();",
        "int side = 1;",
        *block(f"for ({kind} start = from - {window};; start += {window}, side ^= 1)", walk),
    ]


def _is_shared(kernel: GroupKernel) -> str:
    """Whether all parts share a row: one of many terms, and one whose terms are skipped, as they
    lie between those of its neighbours."""
    test = f"end - begin > {kernel.few}"
    if isinstance(kernel.stretch, Between) and kernel.batch_held and kernel.stretch.skip >= 0:
        group = form_text(kernel.stretch.group, kernel.names)
        test += f" || {group} == {number(kernel.stretch.skip)}"
    return test


def _along(access: VectorAccess, kernel: GroupKernel) -> str:
    """Where a thread's vector lies in a row: where the row lies is added by one instruction."""
    terms = (t for t in access.offset.terms if t[1].base is kernel.axes.vector)
    place = f"{access.pointer} + {form_text(Form(0, tuple(terms)), kernel.names)}"
    return f"tf::settled_address({place})" if access.access_bytes >= LEAST_COPIED else place


def _window_rows(kernel: GroupKernel) -> list[str]:
    """What a window has of a part's rows is added. A row that goes on in the next one is kept."""
    kind, across = _kind(kernel), kernel.threads_across
    slot = f"({kernel.window} * side + int(term - start)) * {across} + own"
    vectors = [
        f"const {vector_type(a)}* {a.name} = &{a.name}_terms[{slot}];" for a in kernel.loop.loads
    ]
    added = [statement_text(s, kernel.names) for s in kernel.loop.statements]
    term = ["constexpr int k = 0;", *_per_lane(kernel, added)]
    steps = ["++term", *(f"{a.name} += {across}" for a in kernel.loop.loads)]
    terms = f"for (; term < within; {', '.join(steps)})"
    is_there = [] if kernel.chunks == 1 else [f"vector < {number(kernel.axes.vector.size)}"]
    of_row = [
        f"const {kind} begin = begin_of(row), end = end_of(row), within = {_least('end', 'stop')};",
        f"{kind} term = begin > start ? begin : start;",
        *vectors,
        *unrolled(terms, term, 1),
        "if (end > stop) break;",
        *_summed(kernel),
        *when(is_there, ["finish(row);"]),
        "clear();",
    ]
    return unrolled(f"for (; row < until; row += {kernel.parts})", of_row, 1)


def _fetch(kernel: GroupKernel) -> list[str]:
    """The vectors of a window's terms on their way to shared memory, once their places are known.
    What the hardware does not copy so is loaded first, of all terms."""
    kind, names, batch = _kind(kernel), kernel.names, kernel.batch_held
    loads, vector = kernel.loop.loads, kernel.axes.vector
    at = f"start + part + {kernel.parts} * k"
    places = [
        f"const {kind} term = is_whole || {at} < to ? {at} : start;",
        *(statement_text(s, names) for s in kernel.loop.before),
    ]
    for a in loads:
        apart = Form(a.offset.constant, tuple(t for t in a.offset.terms if t[1].base is not vector))
        from_row = f"{a.name}_own + {form_text(apart, names)}"
        places.append(f"{a.name}_from[k] = tf::address_here({from_row});")
    copied = [a for a in loads if a.access_bytes >= LEAST_COPIED]
    loaded = [a for a in loads if a not in copied]
    moves = [
        f"tf::copy_async<{a.access_bytes}>({a.name}_terms, slot, {a.name}_from[k]);" for a in copied
    ]
    moves += [f"{a.name}_terms[slot] = {a.name}_read[k];" for a in loaded]
    reads = [
        f"{a.name}_read[k] = tf::load<{CUDA_TYPES[a.dtype]}, {a.length}, {a.access_bytes}>"
        f"({a.name}_from[k]);"
        for a in loaded
    ]
    across = kernel.threads_across
    slot = (
        f"const int slot = ({kernel.window} * side + part + {kernel.parts} * k) * {across} + own;"
    )
    moved = each("k", batch, [slot, *when([f"is_whole || {at} < to"], moves)])
    is_there = [] if kernel.chunks == 1 else [f"vector < {number(vector.size)}"]
    return [
        *(f"const {CUDA_TYPES[a.dtype]}* {a.name}_from[{batch}];" for a in loads),
        *each("k", batch, places),
        *(f"{vector_type(a)} {a.name}_read[{batch}];" for a in loaded),
        *each("k", batch, reads),
        *when(is_there, moved),  # one branch around all: behind its own each has an address anew
    ]


def _own_rows(kernel: GroupKernel) -> list[str]:
    """Each is read when its turn comes."""
    head = f"for ({_kind(kernel)} row = first + part; row < last; row += {kernel.parts})"
    return block(head, _own_row(kernel, ["add(row, begin, end, 1);"]))


def _rows_ahead(kernel: GroupKernel) -> list[str]:
    """The same, of whose first terms those of some rows are fetched together: where the rows have
    their terms, where those lie, and what is there."""
    kind, parts, ahead = _kind(kernel), kernel.parts, kernel.ahead
    loads = kernel.loop.loads
    row, known = f"start + {parts} * turn", _row_of_turn(kernel)
    places = _first_places(kernel)
    if any(kernel.axes.row in form.bases for form in kernel.loop.forms):
        places.insert(0, known)
    own = [
        f"const {kind} row = {row};",
        "if (row >= last) break;",
        *_own_row(kernel, _from_first(kernel)),
    ]
    body = [
        f"{kind} begins[{ahead}], ends[{ahead}];",
        *each("turn", ahead, [known, "stretch(row, begins[turn], ends[turn]);"]),
        *(f"const {CUDA_TYPES[a.dtype]}* {a.name}_from[{ahead}];" for a in loads),
        *each("turn", ahead, places),
        *_first_copies(kernel),
        *block(f"for (int turn = 0; turn < {ahead}; ++turn)", own),
    ]
    head = f"for ({kind} start = first + part; start < last; start += {parts * ahead})"
    slots = [
        f"__shared__ {vector_type(a)} {a.name}_first[{ahead}][{kernel.threads}];" for a in loads
    ]
    return [*slots, *block(head, body)]


def _row_of_turn(kernel: GroupKernel) -> str:
    """A row of the block, whatever the turn."""
    row = f"start + {kernel.parts} * turn"
    return f"const {_kind(kernel)} row = {row} < last ? {row} : last - 1;"


def _first_places(kernel: GroupKernel) -> list[str]:
    """Where the first term of a row lies; where that of the whole order does if it has none."""
    names = kernel.names
    return [
        f"const {_kind(kernel)} term = begins[turn] < ends[turn] ? begins[turn] : 0;",
        *(statement_text(s, names) for s in kernel.loop.before),
        *(
            f"{a.name}_from[turn] = tf::address_here({address(a, names)});"
            for a in kernel.loop.loads
        ),
    ]


def _first_copies(kernel: GroupKernel) -> list[str]:
    """The first terms on their way to shared memory: there they hold no registers, and no compiler
    moves their loads to where they are added. What the hardware does not copy so is loaded first,
    of all rows."""
    ahead, loads = kernel.ahead, kernel.loop.loads
    of_rows = [a for a in loads if a.is_of_row]
    has_own = f"begins[turn] < ends[turn] && ends[turn] - begins[turn] <= {kernel.few}"
    moves = [_first_copy(a) for a in loads if not a.is_of_row]
    moves = when([f"vector < {number(kernel.axes.vector.size)}", has_own], moves)
    stored = [f"{a.name}_first[turn][threadIdx.x] = {a.name}_held[turn];" for a in of_rows]
    row, names = [_row_of_turn(kernel)], kernel.names
    return [
        *(f"{vector_type(a)} {a.name}_held[{ahead}];" for a in of_rows),
        *each("turn", ahead, moves),
        *(
            line
            for a in of_rows
            for line in _of_rows(
                a, f"{a.name}_held", f"{a.name}_from", ahead, names, "turn", row, has_own
            )
        ),
        *each("turn", ahead, stored),
        "tf::commit_copies();",
        "tf::await_copies<0>();",
    ]


def _first_copy(access: VectorAccess) -> str:
    """A vector of a row's first term on its way to shared memory."""
    arguments = f"{access.name}_first[turn], threadIdx.x, {access.name}_from[turn]"
    return f"tf::copy_async<{access.access_bytes}>({arguments});"


def _from_first(kernel: GroupKernel) -> list[str]:
    """The first term of a row is added from shared memory, and then the others."""
    vectors = [
        f"const {vector_type(a)}* const {a.name} = &{a.name}_first[turn][threadIdx.x];"
        for a in kernel.loop.loads
    ]
    added = [statement_text(s, kernel.names) for s in kernel.loop.statements]
    first = ["constexpr int k = 0;", *vectors, *_per_lane(kernel, added)]
    return when(["begin < end"], [*first, "add(row, begin + 1, end, 1);"])


def _own_row(kernel: GroupKernel, added: list[str]) -> list[str]:
    """A row that a part sums alone if it has few terms."""
    own = ["clear();", *added, *_summed(kernel), "finish(row);"]
    tests = [f"!({_is_shared(kernel)})", f"vector < {number(kernel.axes.vector.size)}"]
    return [f"{_kind(kernel)} begin, end;", "stretch(row, begin, end);", *when(tests, own)]


def _summed(kernel: GroupKernel) -> list[str]:
    """What the thread has summed is what its row comes to."""
    return _per_lane(kernel, [f"{_row(s)} = {s.name}_part[lane];" for s in kernel.sums])


def _shared_rows(kernel: GroupKernel) -> list[str]:
    """The rows of many terms, one after the other: each part adds its share of the terms."""
    kind, parts, vectors = _kind(kernel), kernel.parts, number(kernel.axes.vector.size)
    across, lanes = kernel.threads_across, kernel.axes.lanes
    place = f"{lanes} * (threadIdx.x % {across}) + lane"
    shared = [
        f"__shared__ {COMPUTE_TYPES[s.dtype]} {s.name}_parts[{parts}][{across * lanes}];"
        for s in kernel.sums
    ]
    share = [f"{s.name}_parts[part][{place}] = {s.name}_part[lane];" for s in kernel.sums]
    meet = [f"{_row(s)} = {_combined(s, place)};" for s in kernel.sums]
    others = block(f"for (int k = 1; k < {parts}; ++k)", _per_lane(kernel, meet))
    is_there = f"vector < {vectors}"
    body = [
        f"const {kind} row = many[k];",
        f"{kind} begin, end;",
        "stretch(row, begin, end);",
        *when([is_there], ["clear();", *_share(kernel), *_per_lane(kernel, share)]),
        "__syncthreads();",
        *when(["part == 0", is_there], [*_summed(kernel), *others, "finish(row);"]),
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
    return combining(total.op, total.dtype, _row(total), other)


def _row(total: GroupSum) -> str:
    return f"{total.name}_row[lane]"


def _array(total: GroupSum, what: str, kernel: GroupKernel) -> str:
    return f"{COMPUTE_TYPES[total.dtype]} {total.name}_{what}[{kernel.axes.lanes}];"


def _per_lane(kernel: GroupKernel, statements: list[str]) -> list[str]:
    return each("lane", kernel.axes.lanes, statements)
