"""Rows that a block walks a stretch at a time, as C++ text: the next turns' come while it works."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.codegen.blocks import by_first_thread
from thunder_fuser.codegen.slots_text import ahead, arrival, opened, over_turns
from thunder_fuser.codegen.staged_text import (
    first_of,
    index_of_stretch,
    over_rest,
    single_load,
    single_store,
    start_text,
    stretches,
    type_of,
    whole_vectors,
)
from thunder_fuser.codegen.statements import form_text, number
from thunder_fuser.kernel.row_ir import RowKernel, Staged


def turns_of_stretches(
    kernel: RowKernel, turns: str, side: Sequence[str], row: Sequence[str]
) -> list[str]:
    """A loop over the turns of a block. What is sent for a turn lies in a slot, which all threads
    have left when it is filled again. `side` says which row a thread has."""
    kind, slots = index_of_stretch(kernel), kernel.slots
    turn = [
        arrival(slots),
        "if (threadIdx.x == 0) tf::await_stores();",
        "__syncthreads();",
        *ahead(slots, turns),
        *side,
        f"const int place = side * {number(kernel.axes.columns)};",
        *row,
        *_stored(kernel),
    ]
    places, sent = _stretches_of_turn(kernel), _sent(kernel)
    walked = over_turns(slots, kind, turns, places, sent, [], turn)
    return [*stretches(kernel), *opened(slots), "__syncthreads();", *walked]


def taken_once(staged: Staged) -> str:
    """What the thread's row has one of."""
    kind = f"{type_of(staged)}, 1, {staged.access.dtype.itemsize}"
    return f"const auto {staged.access.name} = tf::load<{kind}>({staged.name} + side);"


def _stretches_of_turn(kernel: RowKernel) -> list[str]:
    """Where the stretches of a turn begin, in memory and in their slots."""
    assert kernel.axes.side is not None
    first = form_text(kernel.axes.row, {**kernel.names, kernel.axes.side: "0"})
    return [
        start_text(kernel, first),
        *(
            f"{type_of(s)}* const {s.name} = {s.slots_name} + int(turn % {kernel.slots})"
            f" * {number(kernel.rows_per_block * s.per_row)};"
            for s in kernel.staged
        ),
    ]


def _sent(kernel: RowKernel) -> list[str]:
    """All that a turn needs, on its way."""
    counts = [_count(staged, kernel) for staged in kernel.staged]
    sizes = [f"{staged.name}_count * {staged.access.dtype.itemsize}" for staged in kernel.staged]
    copies = [
        f"tf::copy_stretch({s.name}, {s.access.pointer} + {first_of(s)}, {s.name}_count, mail);"
        for s in kernel.staged
    ]
    one = [
        f"tf::Mailbox& mail = arrived[turn % {kernel.slots}];",
        *counts,
        f"tf::expect_mail(mail, {' + '.join(sizes)});",
        *copies,
    ]
    rests = [line for s in kernel.staged for line in over_rest(s, kernel, single_load(s))]
    return [*by_first_thread(one), *rests]


def _stored(kernel: RowKernel) -> list[str]:
    """What all threads of the block have filled, to memory."""
    if not kernel.filled:
        return []
    stores, rests = [], []
    for staged in kernel.filled:
        stores.append(_count(staged, kernel))
        for pointer in staged.pointers:
            to = f"{pointer} + {first_of(staged)}"
            stores.append(f"tf::store_stretch({to}, {staged.name}, {staged.name}_count);")
            rests += over_rest(staged, kernel, single_store(staged, pointer))
    return ["tf::show_stretches();", "__syncthreads();", *by_first_thread(stores), *rests]


def _count(staged: Staged, kernel: RowKernel) -> str:
    """Elements of a stretch, as far as there are rows and these fill vectors."""
    size = number(kernel.rows_per_block * staged.per_row)
    value = size
    if kernel.axes.is_ragged:
        left = _left(staged, kernel)
        value = f"int({left} < {size} ? {left} : {size})"
    return f"const int {staged.name}_count = {value};"


def _left(staged: Staged, kernel: RowKernel) -> str:
    """Elements from the beginning of a stretch on, to the last whole vector of the plane or to the
    end of the sample, which is one."""
    axes = kernel.axes
    if axes.sample is None:
        return f"{number(whole_vectors(staged, kernel))} - {first_of(staged)}"
    assert axes.side is not None
    first = form_text(axes.sample.form, {**kernel.names, axes.side: "0"})
    return f"({number(axes.sample.extent)} - {first}) * {number(staged.per_row)}"
