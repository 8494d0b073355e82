"""The schedule of the row template, and how it prints.

rows over group{64}, turn{1}, vector{512}, lane{8}, T0 in registers
  128 threads a row, 1 rows a block
  phase 0: T1[group] of T0[group, 8*vector + lane]
  store whole rows: T3[group, 8*vector + lane]
  store one element a row: T1[group]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from thunder_fuser.analysis.access import Element, Index
from thunder_fuser.analysis.reductions import is_outermost, is_scan
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.down_columns import Columns
from thunder_fuser.schedule.phases import Phase
from thunder_fuser.schedule.residency import Residency, Row
from thunder_fuser.schedule.row_axes import RowAxes
from thunder_fuser.schedule.stored_rows import Place
from thunder_fuser.schedule.text import print_axes, print_elements
from thunder_fuser.schedule.totals import Totals
from thunder_fuser.segment.segment import Segment, Store


@dataclass(frozen=True, eq=False)
class RowWork:
    """What is done for rows. `full` are stores of whole rows, `single` of one element per row, each
    with its index, which some are stored at other `places` than; `columns` are summed beside
    them, and `totals` follow from all rows."""

    segment: Segment
    axes: RowAxes
    phases: tuple[Phase, ...]
    full: tuple[tuple[Store, Index], ...]
    single: tuple[tuple[Store, Index], ...]
    columns: Columns
    totals: Totals
    places: Mapping[tuple[Store, Index], tuple[Place, ...]] = field(default_factory=dict)

    @property
    def reduced(self) -> tuple[TensorView, ...]:
        """Reductions and scans along rows."""
        return tuple(tv for phase in self.phases for tv, _ in phase.reductions)

    @property
    def met(self) -> int:
        """How many rows of a block meet in some phase; 1 where none do."""
        return max((phase.met or 1 for phase in self.phases), default=1)

    @property
    def scans(self) -> tuple[TensorView, ...]:
        return tuple(filter(is_scan, self.reduced))

    @property
    def whole(self) -> tuple[Element, ...]:
        """The elements of whole rows that are stored."""
        return tuple((s.value, index) for s, index in self.full)


@dataclass(frozen=True, eq=False)
class RowSchedule(RowWork):
    """And where rows are meanwhile, by which threads."""

    row: Row = field(kw_only=True)
    residency: Residency = field(kw_only=True)
    rows_per_block: int = field(kw_only=True)
    splits: int = 1  # blocks that share a row
    chunk: int = 0  # vectors of a thread that it has at a time; 0 for all
    is_staged: bool = False  # rows pass through shared memory

    @property
    def are_pieces_outermost(self) -> bool:
        """True where the first pieces of all rows lie before their second ones, and blocks walk
        them in this order."""
        return self.splits > 1 and all(map(is_outermost, self.reduced))

    @property
    def stored_as_summed(self) -> tuple[tuple[Store, Index], ...]:
        """The stores of whole rows by the loop that sums them. Where blocks share a row none of
        them needs its sums, and a loop of their own would compute each vector again."""
        return self.full if self.splits > 1 else ()

    @property
    def stored_behind(self) -> tuple[tuple[Store, Index], ...]:
        """The other stores of whole rows, behind the phases."""
        return () if self.stored_as_summed else self.full

    def __str__(self) -> str:
        names, tensors = self.axes.names, self.segment.names
        lines = [
            f"rows over {print_axes(names, names)}, {self._held()}{self.segment.direction}",
            f"  {self._shared_by()}",
        ]
        if self.splits > 1:
            lines[-1] = f"  {self.threads_per_row} threads a piece, {self.splits} pieces a row"
            lines[-1] += " one after another over all rows" if self.are_pieces_outermost else ""
        if self.chunk:
            lines[-1] += f", {self.chunk} vectors at a time"
        levels = [
            (_title(k, phase), phase.reductions, phase.terms) for k, phase in enumerate(self.phases)
        ]
        levels.append(("down columns", self.columns.reductions, self.columns.terms))
        levels.append(("over all rows", self.totals.reductions, self.totals.terms))
        for title, reductions, terms in levels:
            reduced = print_elements(reductions, tensors, names)
            of = print_elements(terms, tensors, names)
            lines += [f"  {title}: {reduced} of {of}"] if reductions else []
        for title, found in (
            ("whole rows", self.full),
            ("one element a row", self.single),
            ("one element a column", self.columns.stores),
            ("once", self.totals.stores),
        ):
            stored = print_elements([(s.value, index) for s, index in found], tensors, names)
            lines += [f"  store {title}: {stored}"] if stored else []
        return "\n".join(lines)

    def _shared_by(self) -> str:
        threads, cluster = self.residency.threads, self.residency.cluster
        blocks = self.residency.blocks
        fitting = "" if blocks is None else f", {blocks} of them on a multiprocessor"
        if self.residency.apart > 1:
            fitting += f", those of a warp {self.residency.apart} apart"
        rows = f", {self.rows_per_block} rows a block"
        if cluster > 1:
            rows = rows if self.rows_per_block > 1 else ""
            return f"{cluster} blocks of {threads} threads a row{rows}{fitting}"
        edges = ", with an element of its edges each" if self.axes.has_edges else ""
        return f"{threads} threads a row{edges}{rows}{fitting}"

    def _held(self) -> str:
        found, tensors = self.residency, self.segment.names
        kept = found.registers - found.shared
        held = [tensors[tv] for tv in self.segment.inputs if tv in kept]
        slotted = [tensors[tv] for tv in self.segment.inputs if tv in found.shared]
        turns = f", {found.batch} turns at a time" if found.batch > 1 else ""
        places = [f"{', '.join(held)} in registers{turns}"] if held else []
        if slotted:
            rows = f", {found.slots} rows at a time" if found.slots > 1 else ""
            both = [tensors[tv] for tv in self.segment.inputs if tv in found.registers - kept]
            both += ["the weights"] if found.weights else []
            again = f", {', '.join(both)} in registers too" if both else ""
            stowed = ", the weights there too" if found.stowed else ""
            places.append(f"{', '.join(slotted)} in shared memory{rows}{stowed}{again}")
        gathered = [tensors[tv] for tv in self.segment.inputs if tv in found.gathered]
        places += [f"{', '.join(gathered)} gathered"] if gathered else []
        brought = [tensors[tv] for tv in self.segment.inputs if tv in found.brought]
        places += [f"{', '.join(brought)} brought by each row"] if brought else []
        slots = f", {found.slots} turns at a time" if found.slots > 1 else ""
        places += [f"through shared memory{slots}"] if self.is_staged else []
        return " and ".join(places) or "read in every phase"

    @property
    def threads_per_row(self) -> int:
        return self.residency.threads * self.residency.cluster


def _title(position: int, phase: Phase) -> str:
    met = "" if phase.met is None else f", of {phase.met} rows that meet"
    return f"phase {position}{met}"
