"""What the column template decided of a segment: axes, what is summed and stored, threads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.access import Demand, Element, Index, demand
from thunder_fuser.analysis.delayed import Delayed, computed
from thunder_fuser.analysis.digits import Form
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.analysis.reductions import is_scan, state_bytes
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Cost
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.row_pieces import RowPieces
from thunder_fuser.schedule.text import print_axes, print_elements
from thunder_fuser.segment.segment import Segment, Store


@dataclass(frozen=True, eq=False)
class ColumnSchedule:
    """`full` are stores of every element of the plane, `stores` of one per column."""

    segment: Segment
    axes: ColumnAxes
    reductions: tuple[Element, ...]
    terms: tuple[Element, ...]
    full: tuple[tuple[Store, Index], ...]
    stores: tuple[tuple[Store, Index], ...]
    threads_across: int  # threads side by side along a row
    threads_down: int  # threads of a block that share a column
    splits: int = 1  # blocks that share a column
    batch: int = 1  # rows that a thread loads before it sums them
    blocks_at_once: int | None = None  # that fit on a multiprocessor; None for as many as do
    staged: frozenset[TensorView] = frozenset()  # of which blocks have whole rows as a stretch
    run: int = 1  # rows that a thread takes out of stretches at once
    pieces: RowPieces | None = None  # of rows, that its warps have
    delays: tuple[Delayed, ...] = ()  # what its rows, from the last one up, keep for each other

    @property
    def long(self) -> list[TensorView]:
        return [tv for tv, _ in self.reductions]

    @property
    def states(self) -> int:
        """Bytes of the sums of a thread."""
        return sum(map(state_bytes, self.long)) * self.axes.lanes

    @property
    def of_rows(self) -> list[Element]:
        """What a row comes to."""
        stored = [(s.value, index) for s, index in self.full]
        return [*self.terms, *stored, *(line.own for line in self.delays)]

    def needs_of(self, results: Sequence[Element]) -> Demand:
        """What of a row is computed for `results`, down to memory and what it sums."""
        own = [line.own for line in self.delays]
        leaves = self.segment.leaves.union(self.segment.long)
        found = demand([*results, *own], leaves, self.axes.is_uniform)
        return computed([*results, *own], found, self.delays) if own else found

    @property
    def divisors(self) -> set[Element]:
        """What elements of a row are divided by, where all rows of the column have the same."""
        elements = self.needs_of(self.of_rows).elements.values()
        quotients = (e for e in elements if e.tensor.expr.op.by_row)
        found = {(s.producer, s.index) for e in quotients for s in e.sources[1:]}
        return {divisor for divisor in found if not self._differs(divisor)}

    @property
    def prepares(self) -> bool:
        """True where something that all rows of a column have in common is made before them."""
        elements = self.needs_of(self.of_rows).elements.items()
        costly = (key for key, e in elements if e.tensor.expr.op.cost is Cost.EXPENSIVE)
        return bool(self.divisors) or not all(map(self._differs, costly))

    def _differs(self, element: Element) -> bool:
        """True for an element that reads others of memory in each row."""
        layouts = self.segment.layouts
        read = [(tv, i) for tv, i in self.needs_of([element]).leaves if tv in layouts]
        return any(self.axes.row in offset_of(layouts[tv], i).bases for tv, i in read)

    @property
    def of_plane(self) -> dict[TensorView, set[Form]]:
        """Where what differs from row to row is read or stored."""
        layouts, leaves = self.segment.layouts, self.needs_of(self.of_rows).leaves
        moved = [(tv, index) for tv, index in leaves if tv in layouts]
        moved += [(store.target, index) for store, index in self.full]
        found: dict[TensorView, set[Form]] = {}
        for tv, index in moved:
            offset = offset_of(layouts[tv], index)
            if self.axes.row in offset.bases:
                found.setdefault(tv, set()).add(offset)
        return found

    def lies_as(self, place: Form) -> set[TensorView]:
        """What is read or stored of the plane at such a place, and never at another one."""
        return {tv for tv, offsets in self.of_plane.items() if offsets == {place}}

    @property
    def is_chain(self) -> bool:
        """True for running sums of which threads know what lies before their rows from others."""
        return any(map(is_scan, self.long)) and self.threads_down > 1

    @property
    def is_reversed(self) -> bool:
        """True for running sums from the last row to the first."""
        return any(tv.expr.attr("reverse") is True for tv in filter(is_scan, self.long))

    @property
    def _printed_pieces(self) -> str:
        results = () if self.pieces is None else self.pieces.results
        return print_elements(results, self.segment.names, self.axes.names)

    def __str__(self) -> str:
        names, tensors = self.axes.names, self.segment.names
        stored = print_elements([(s.value, index) for s, index in self.stores], tensors, names)
        return "\n".join(
            [
                f"columns over {print_axes(names, names)}",
                f"  {self.threads_across} threads across, {self.threads_down} down"
                + (f", rows in {self.splits} splits" if self.splits > 1 else "")
                + (f", {self.batch} at a time" if self.batch > 1 else "")
                + (" through shared memory" if self.staged else ""),
                f"  reduce {print_elements(self.reductions, tensors, names)} "
                f"of {print_elements(self.terms, tensors, names)}",
                f"  store {stored}",
                *([] if self.pieces is None else [f"  pieces of rows {self._printed_pieces}"]),
            ]
        )
