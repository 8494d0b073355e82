"""A pick schedule to a pick kernel.

pick kernel(T0: bf16*, T1: i64*, T2: bf16*) 4096 blocks of 1 rows, 512 threads
  rows 4096 places 512 of 8 lanes, columns 512 of 8 lanes
  per vector of places
    v0 = load T1[4096*row + 8*vector], 8 x i64, 16 bytes at a time
    v1 = load T0[4096*row + 8*vector], 8 x bf16, 16 bytes at a time
    T1_0: i64 = v0[1*lane + 0]
    T0_0: f32 = v1[1*lane + 0]
    T1_1: i64 = in_range(T1_0, 4096)
    column[lane] = T1_1
    value[lane] = T0_0
  per vector of columns
    w0[1*lane + 0] = T2_row[lane]
    store w0 -> T2[4096*row + 8*vector], 8 x bf16, 16 bytes at a time
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.access import demand
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.elements import ElementWriter, rounding
from thunder_fuser.kernel.known_sums import behind_sums
from thunder_fuser.kernel.names import Names, name_values, pointers_of, scalars_of
from thunder_fuser.kernel.scopes import Scope, print_scope
from thunder_fuser.kernel.signature import Pointer, ScalarParameter, print_parameters
from thunder_fuser.kernel.statements import Hold, Variable
from thunder_fuser.kernel.vectors import Accesses
from thunder_fuser.schedule.picks import PickAxes, PickSchedule
from thunder_fuser.schedule.vector_axes import VectorAxes

COLUMN, VALUE = "column", "value"  # arrays of what the lanes of a vector of places have


@dataclass(frozen=True)
class PickKernel:
    """One launch. `load` tells of each place what it adds to which column, `final` is done once per
    vector of columns, whose sums are in the array `name_row`."""

    pointers: tuple[Pointer, ...]
    scalars: tuple[ScalarParameter, ...]
    axes: PickAxes
    rows: int
    threads: int
    turns: int
    blocks: int
    has_slots: bool
    shared_bytes: int
    name: str
    dtype: DataType
    rounded: DataType | None  # the precision to which the trace rounds a sum
    load: Scope
    final: Scope

    @property
    def blocks_at_once(self) -> None:
        """Any number of blocks may fit on a multiprocessor."""

    @property
    def reach(self) -> int:
        """The largest absolute value of an offset."""
        forms = (*self.load.forms, *self.final.forms)
        return max((self.axes.row.size + self.rows, *(form.reach for form in forms)))

    def __str__(self) -> str:
        axes, names = self.axes, self.axes.names
        places = axes.places
        return "\n".join(
            (
                f"pick kernel({print_parameters(self.pointers, self.scalars)}) {self.blocks} "
                f"blocks of {self.rows} rows, {self.threads} threads",
                f"  rows {axes.row.size} places {places.vector.size} of {places.lanes} lanes, "
                f"columns {axes.vector.size} of {axes.lanes} lanes",
                "  per vector of places",
                *print_scope(self.load, names),
                "  per vector of columns",
                *print_scope(self.final, names),
            )
        )


def lower_picks(planned: PickSchedule, strict: bool) -> PickKernel:
    """The kernel of a pick schedule. `strict` keeps every rounding of the trace."""
    segment, axes, (tv, _) = planned.segment, planned.axes, planned.sum
    names = name_values(segment)
    return PickKernel(
        pointers=pointers_of(segment, names),
        scalars=scalars_of(names),
        axes=axes,
        rows=planned.rows,
        threads=planned.threads,
        turns=planned.turns,
        blocks=planned.blocks,
        has_slots=planned.has_slots,
        shared_bytes=planned.shared_bytes,
        name=names.tensors[tv],
        dtype=tv.dtype,
        rounded=rounding(tv, segment, strict),
        load=_load(planned, names, strict),
        final=behind_sums(
            _writer(planned, names, axes, strict), axes, [planned.sum], planned.stores
        ),
    )


def _load(planned: PickSchedule, names: Names, strict: bool) -> Scope:
    """What is added at a place, and to which column: a checked index."""
    places, (tv, _), index = planned.axes.places, planned.sum, planned.index
    writer = _writer(planned, names, places, strict)
    needs = demand([planned.term, (index.tensor, index.index)], planned.segment.leaves)
    before = writer.locate(filter(places.is_uniform, needs.places))
    writer.request(needs)
    loads = writer.accesses.group_loads()
    writer.evaluate(needs)
    writer.place(index)
    lane, dtype = writer.accesses.lane_index, tv.dtype.compute_type
    column = Variable(writer.places[index], DataType.Int)
    value = writer.convert(tv, writer.values[planned.term], dtype)
    held = (
        Hold(Variable(f"{COLUMN}[{lane}]", DataType.Int), column),
        Hold(Variable(f"{VALUE}[{lane}]", dtype), value),
    )
    return Scope(loads, (*writer.statements, *held), (), before)


def _writer(planned: PickSchedule, names: Names, axes: VectorAxes, strict: bool) -> ElementWriter:
    segment = planned.segment
    accesses = Accesses(segment.layouts, axes.lane, names.tensors, planned.streams)
    return ElementWriter(segment, names.tensors, names.scalars, accesses, strict)
