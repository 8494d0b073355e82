"""What follows from sums by an index, of groups and of picks: a vector of a row at a time.

w0[1*lane + 0] = T2_row[lane]
store w0 -> T2[4096*row + 8*vector], 8 x bf16, 16 bytes at a time
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.access import Demand, Element, Index, demand
from thunder_fuser.kernel.columns import targets_of
from thunder_fuser.kernel.elements import ElementWriter
from thunder_fuser.kernel.scopes import Scope
from thunder_fuser.kernel.statements import Variable
from thunder_fuser.schedule.vector_axes import VectorAxes
from thunder_fuser.segment.segment import Segment, Store


def behind_sums(
    writer: ElementWriter,
    axes: VectorAxes,
    sums: Sequence[Element],
    stores: Sequence[tuple[Store, Index]],
) -> Scope:
    """What is loaded, computed and stored where the `sums` of a vector are known: each in an array
    `name_row` with an element a lane."""
    for tv, index in sums:
        name = f"{writer.tensors[tv]}_row[{writer.accesses.lane_index}]"
        writer.known[tv, index] = Variable(name, tv.dtype.compute_type)
    results = [(store.value, index) for store, index in stores]
    needs = needs_behind(writer.segment, axes, sums, [r for r in results if r not in writer.known])
    before = writer.locate(filter(axes.is_uniform, needs.places))
    writer.request(needs)
    loads = writer.accesses.group_loads()
    writer.begin()
    writer.evaluate(needs)
    writes, vectors = writer.accesses.group_stores(targets_of(writer, stores))
    return Scope(loads, (*writer.statements, *writes), vectors, before)


def needs_behind(
    segment: Segment, axes: VectorAxes, sums: Sequence[Element], results: Sequence[Element]
) -> Demand:
    """What `results` need down to memory, the sums and the indices that lanes share."""
    ends = frozenset(tv for tv, _ in sums)
    return demand(results, segment.leaves | ends, axes.is_uniform)
