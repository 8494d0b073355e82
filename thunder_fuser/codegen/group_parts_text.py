"""What a group kernel's parts do, as C++ text: each sums its rows of few terms alone, one after the
other, with the first terms of several on their way, or from windows of what a block has of all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from thunder_fuser.analysis.digits import Form
from thunder_fuser.codegen.blocks import block, each, function, otherwise, unrolled, when
from thunder_fuser.codegen.statements import (
    address,
    end_of,
    form_text,
    number,
    row_call,
    statement_text,
    vector_type,
)
from thunder_fuser.codegen.types import CUDA_TYPES, index_type
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.group_ir import Between, GroupKernel, GroupSum
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.schedule.groups import LEAST_COPIED


def few_terms(kernel: GroupKernel) -> list[str]:
    """The rows of few terms, each by one part."""
    if kernel.batch_held:
        return _held_rows(kernel)
    return _own_rows(kernel) if kernel.ahead == 1 else _rows_ahead(kernel)


def _held_rows(kernel: GroupKernel) -> list[str]:
    """The same of a block that has its terms window by window. It first asks where those of each
    row lie; rows between two of many terms have theirs side by side."""
    kind, threads = index_kind(kernel), kernel.threads
    slots = 2 * kernel.window * kernel.threads_across
    known = [
        f"const {kind} row = first + k;",
        f"{kind} begin, end;",
        "stretch(row, begin, end);",
        "stretches[k].v[0] = begin, stretches[k].v[1] = end;",
        f"is_shared = is_shared || {is_shared(kernel)};",
    ]
    search = [
        f"const {kind} row = until, begin = begin_of(row), end = end_of(row);",
        f"if ({is_shared(kernel)}) break;",
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
    kind, window = index_kind(kernel), kernel.window
    whole, part = (f"fetch(stop, side ^ 1, tf::{answer}());" for answer in ("Yes", "No"))
    walk = [
        f"const {kind} stop = {least(f'start + {window}', 'to')};",
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


def _along(access: VectorAccess, kernel: GroupKernel) -> str:
    """Where a thread's vector lies in a row: where the row lies is added by one instruction."""
    terms = (t for t in access.offset.terms if t[1].base is kernel.axes.vector)
    place = f"{access.pointer} + {form_text(Form(0, tuple(terms)), kernel.names)}"
    return f"tf::settled_address({place})" if access.access_bytes >= LEAST_COPIED else place


def _window_rows(kernel: GroupKernel) -> list[str]:
    """What a window has of a part's rows is added. A row that goes on in the next one is kept."""
    kind, across = index_kind(kernel), kernel.threads_across
    slot = f"({kernel.window} * side + int(term - start)) * {across} + own"
    vectors = [
        f"const {vector_type(a)}* {a.name} = &{a.name}_terms[{slot}];" for a in kernel.loop.loads
    ]
    added = [statement_text(s, kernel.names) for s in kernel.loop.statements]
    term = ["constexpr int k = 0;", *per_lane(kernel, added)]
    steps = ["++term", *(f"{a.name} += {across}" for a in kernel.loop.loads)]
    terms = f"for (; term < within; {', '.join(steps)})"
    is_there = [] if kernel.chunks == 1 else [f"vector < {number(kernel.axes.vector.size)}"]
    of_row = [
        f"const {kind} begin = begin_of(row), end = end_of(row), within = {least('end', 'stop')};",
        f"{kind} term = begin > start ? begin : start;",
        *vectors,
        *unrolled(terms, term, 1),
        "if (end > stop) break;",
        *summed(kernel),
        *when(is_there, ["finish(row);"]),
        "clear();",
    ]
    return unrolled(f"for (; row < until; row += {kernel.parts})", of_row, 1)


def _fetch(kernel: GroupKernel) -> list[str]:
    """The vectors of a window's terms on their way to shared memory, once their places are known.
    What the hardware does not copy so is loaded first, of all terms."""
    kind, names, batch = index_kind(kernel), kernel.names, kernel.batch_held
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
    head = f"for ({index_kind(kernel)} row = first + part; row < last; row += {kernel.parts})"
    return block(head, _own_row(kernel, ["add(row, begin, end, 1);"]))


def _rows_ahead(kernel: GroupKernel) -> list[str]:
    """The same, of whose first terms those of some rows are fetched together: where the rows have
    their terms, where those lie, and what is there."""
    kind, parts, ahead = index_kind(kernel), kernel.parts, kernel.ahead
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
    return f"const {index_kind(kernel)} row = {row} < last ? {row} : last - 1;"


def _first_places(kernel: GroupKernel) -> list[str]:
    """Where the first term of a row lies; where that of the whole order does if it has none."""
    names = kernel.names
    return [
        f"const {index_kind(kernel)} term = begins[turn] < ends[turn] ? begins[turn] : 0;",
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
            for line in row_vectors(
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
    first = ["constexpr int k = 0;", *vectors, *per_lane(kernel, added)]
    return when(["begin < end"], [*first, "add(row, begin + 1, end, 1);"])


def _own_row(kernel: GroupKernel, added: list[str]) -> list[str]:
    """A row that a part sums alone if it has few terms."""
    own = ["clear();", *added, *summed(kernel), "finish(row);"]
    tests = [f"!({is_shared(kernel)})", f"vector < {number(kernel.axes.vector.size)}"]
    return [f"{index_kind(kernel)} begin, end;", "stretch(row, begin, end);", *when(tests, own)]


def index_kind(kernel: GroupKernel) -> str:
    """The C++ type in which it counts rows and terms."""
    return index_type(kernel.reach)


def per_lane(kernel: GroupKernel, statements: list[str]) -> list[str]:
    return each("lane", kernel.axes.lanes, statements)


def row_sum(total: GroupSum) -> str:
    return f"{total.name}_row[lane]"


def summed(kernel: GroupKernel) -> list[str]:
    """What the thread has summed is what its row comes to."""
    return per_lane(kernel, [f"{row_sum(s)} = {s.name}_part[lane];" for s in kernel.sums])


def is_shared(kernel: GroupKernel) -> str:
    """Whether all parts share a row: one of many terms, and one whose terms are skipped, as they
    lie between those of its neighbours."""
    test = f"end - begin > {kernel.few}"
    if isinstance(kernel.stretch, Between) and kernel.batch_held and kernel.stretch.skip >= 0:
        group = form_text(kernel.stretch.group, kernel.names)
        test += f" || {group} == {number(kernel.stretch.skip)}"
    return test


def least(value: str, limit: str) -> str:
    return f"({value} < {limit} ? {value} : {limit})"


def row_vectors(
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
