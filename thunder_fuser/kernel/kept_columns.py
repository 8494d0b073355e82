"""A kept column schedule to its kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from thunder_fuser.analysis.access import Demand, Element, Index, demand
from thunder_fuser.analysis.digits import Form
from thunder_fuser.analysis.precision import is_from_one
from thunder_fuser.analysis.reductions import terms_type
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.columns import targets_of
from thunder_fuser.kernel.elements import ElementWriter, rounding
from thunder_fuser.kernel.image_accesses import ImageAccesses
from thunder_fuser.kernel.image_ir import PlaceValues
from thunder_fuser.kernel.kept_ir import NOTHING, KeptKernel, KeptPhase, KeptSum, own
from thunder_fuser.kernel.kept_values import leave, shares_of_rows
from thunder_fuser.kernel.names import name_values, pointers_of, scalars_of
from thunder_fuser.kernel.odd_columns import OddAccesses
from thunder_fuser.kernel.pairs import pairs_of
from thunder_fuser.kernel.place_values import left_at_places
from thunder_fuser.kernel.row_values import RowValues
from thunder_fuser.kernel.scopes import Accumulator, Scope
from thunder_fuser.kernel.statements import Accumulate, LaneStatement, Variable, VectorAccess
from thunder_fuser.kernel.turning import TurnedAccesses
from thunder_fuser.kernel.vectors import Accesses, loads_read_by
from thunder_fuser.schedule.kept_columns import KeptSchedule, is_of_plane
from thunder_fuser.schedule.odd_columns import OddAxes
from thunder_fuser.schedule.phases import Phase
from thunder_fuser.segment.segment import Store


def lower_kept_columns(planned: KeptSchedule, strict: bool) -> KeptKernel:
    """The kernel of a kept column schedule. `strict` keeps every rounding of the trace."""
    return _KeptWriter(planned, strict).write()


def _accesses(planned: KeptSchedule, names: Mapping[TensorView, str]) -> Accesses:
    axes, layouts = planned.axes, planned.segment.layouts

    def suffix(tv: TensorView, offset: Form) -> str:
        return "[k]" if is_of_plane(offset, axes) else ""

    def is_kept(offset: Form) -> bool:
        return axes.lane in offset.bases

    if isinstance(axes, OddAxes):
        return OddAccesses(layouts, axes, names)
    if planned.slots:
        return ImageAccesses(layouts, axes, planned.threads_across, names)
    if planned.strip is None:
        return Accesses(layouts, axes.lane, names, None, suffix, is_kept)
    return TurnedAccesses(layouts, planned.strip, axes.lane, names, None, suffix, is_kept)


class _KeptWriter:
    """Collects the scopes of the kernel."""

    def __init__(self, planned: KeptSchedule, strict: bool) -> None:
        self.planned, self.segment, self.axes = planned, planned.segment, planned.axes
        self.strict = strict
        self.names = name_values(planned.segment)
        self.reductions = [r for phase in planned.phases for r in phase.reductions]
        self.accesses = _accesses(planned, self.names.tensors)
        self.writer = ElementWriter(
            self.segment, self.names.tensors, self.names.scalars, self.accesses, strict
        )

    def write(self) -> KeptKernel:
        planned = self.planned
        at_rows = shares_of_rows(self.writer, planned.shares, planned.threads_across)
        single = () if self._is_spread else planned.stores
        stored = [(s.value, i) for s, i in (*planned.full, *single, *planned.samples)]
        added = () if planned.beside is None else planned.beside.terms
        results = [*(t for p in planned.phases for t in p.terms), *stored, *added]
        self.writer.request(self._needs(results), self.reductions)
        spread = [(s.value, i) for s, i in planned.stores] if self._is_spread else []
        self.by_lane, self.by_column = self._sums_of(results), self._sums_of(spread)
        loads = self.accesses.group_loads()
        once = tuple(a for a in loads if self.axes.row not in a.bases)
        scalars = self.names.scalars.values()
        known = RowValues((self.axes.row,), (a.name for a in once), scalars, lanes=True)
        self.writer.repeats = known.repeats
        phases = tuple(self._phase(phase, loads) for phase in planned.phases)
        sums = self._beside()
        final = self._spread() if self._is_spread else self._stores(planned.stores, loads)
        at_places = self._at_places(loads)
        full = self._stores(planned.full, loads, sums)
        found, images = self.accesses, None
        if isinstance(found, ImageAccesses):
            threads = planned.threads_across * planned.threads_down + planned.idle
            walkers = None if planned.beside is None else threads
            images = found.images(planned.slots, planned.idle, at_places, walkers)
        turned = self.accesses if isinstance(self.accesses, TurnedAccesses) else None
        return KeptKernel(
            pointers=pointers_of(self.segment, self.names),
            scalars=scalars_of(self.names),
            axes=self.axes,
            threads_across=planned.threads_across,
            threads_down=planned.threads_down,
            kept=tuple(a for a in loads if is_of_plane(a.offset, self.axes)),
            once=once,
            phases=phases,
            full=full,
            final=final,
            blocks_at_once=planned.blocks_at_once,
            strip=planned.strip,
            fills=() if turned is None else turned.turned_loads,
            empties=() if turned is None else turned.stores,
            group=None if planned.beside is None else planned.beside.group,
            parts=1 if planned.beside is None else planned.beside.parts,
            tiles=1 if planned.beside is None else planned.beside.vectors // planned.threads_across,
            beside=tuple(total for total, _ in sums),
            results=self._results(),
            renews=planned.renews,
            cluster=planned.cluster,
            images=images,
            is_spread=self._is_spread,
            abreast=planned.abreast,
            samples=self._stores(planned.samples, loads),
            at_rows=at_rows,
        )

    @property
    def _is_spread(self) -> bool:
        """True where what there is once a column reads memory: threads with all lanes of a vector
        would hold that for each of them, and wait for one after the other."""
        planned, lanes = self.planned, self.axes.lanes
        if isinstance(self.axes, OddAxes):
            return bool(planned.stores)
        is_plain = planned.strip is None and planned.beside is None and not planned.slots
        is_plain &= not self.segment.met
        if not is_plain or not 1 < lanes <= planned.threads_down:
            return False
        known = {tv for tv, _ in self.reductions}
        read = self._needs([(s.value, i) for s, i in planned.stores]).leaves
        return any(tv not in known for tv, _ in read)

    def _spread(self) -> Scope:
        """The stores of a column, whose lane is then a thread's."""
        tensors = self.names.tensors
        accesses = Accesses(self.segment.layouts, None, tensors, None, lambda tv, offset: own(""))
        writer = ElementWriter(self.segment, tensors, self.names.scalars, accesses, self.strict)
        writer.copies = self.writer.copies
        known = {(tv, self._of_thread(i)): own(tensors[tv]) for tv, i in self.reductions}
        writer.known = {r: Variable(name, r[0].dtype.compute_type) for r, name in known.items()}
        writer.begin()
        stores = [(store, self._of_thread(index)) for store, index in self.planned.stores]
        needs = self._needs([r for s, i in stores if (r := (s.value, i)) not in writer.known])
        writer.request(needs)
        loads = accesses.group_loads()
        writer.evaluate(needs)
        writes, vectors = accesses.group_stores(targets_of(writer, stores))
        loads = tuple(replace(a, name=own(a.name)) for a in loads)
        return Scope(loads, (*writer.statements, *writes), vectors)

    def _of_thread(self, index: Index) -> Index:
        """The index of a thread's own column: `first`, where vectors lag behind columns."""
        return tuple(map(self.axes.begin, index)) if isinstance(self.axes, OddAxes) else index

    def _sums_of(self, results: Sequence[Element]) -> set[TensorView]:
        """The sums of the phases that `results` need."""
        return {tv for tv, _ in self.reductions} & {tv for tv, _ in self._needs(results).leaves}

    def _needs(self, results: Sequence[Element]) -> Demand:
        """What `results` need down to memory, the reductions, and what else is known."""
        known = {tv for tv, _ in (*self.reductions, *self.writer.known)}
        return demand(results, self.segment.leaves | known)

    def _phase(self, phase: Phase, loads: Sequence[VectorAccess]) -> KeptPhase:
        self.writer.begin()
        self.writer.evaluate(self._needs(phase.terms))
        held = leave(self.writer, self.planned.left)
        lane = f"[{self.accesses.lane_index}]"
        accumulated, sums = list[LaneStatement](), list[KeptSum]()
        for (tv, index), term in zip(phase.reductions, phase.terms, strict=True):
            name, dtype, op = self.names.tensors[tv], tv.dtype.compute_type, tv.expr.op
            taken = dtype if op.is_finished else terms_type(tv)
            value = self.writer.convert(tv, self.writer.values[term], taken)
            part = f"{name}_part" if phase.met else f"{name}_part{lane}"
            accumulated.append(Accumulate(Variable(part, dtype), op, value))
            rounded = rounding(tv, self.segment, self.strict)
            by_lane, by_column = tv in self.by_lane, tv in self.by_column
            sums.append(KeptSum(name, dtype, op, rounded, by_lane, by_column))
            known = f"{name}_row" if phase.met else f"{name}_row{lane}"
            is_sum = not self.planned.full and is_from_one(tv)  # where planes are stored it spilled
            self.writer.known[tv, index] = Variable(known, dtype, True, is_sum)
        statements = (*self.writer.statements, *accumulated)
        scope = Scope(self._used(loads, statements), statements)
        if phase.met:
            return KeptPhase(scope, tuple(sums), meet=True)
        planned, kept = self.planned, [a for a in loads if is_of_plane(a.offset, self.axes)]
        is_plain = planned.strip is None and not planned.slots
        pairs = pairs_of(scope, kept, self.axes.lanes) if is_plain else ()
        return KeptPhase(scope, tuple(sums), pairs, held=held)

    def _at_places(self, loads: Sequence[VectorAccess]) -> PlaceValues:
        """What is known of places to threads that are at rows."""
        keys = self.planned.known
        self.writer.begin()
        self.writer.evaluate(self._needs([k for k in keys if k not in self.writer.known]))
        arrays, held = left_at_places(self.writer, keys, self.planned.threads_across)
        statements = (*self.writer.statements, *held)
        return PlaceValues(Scope(self._used(loads, statements), statements), arrays)

    def _beside(self) -> list[tuple[Accumulator, Element]]:
        """The sums over columns, and the term of each."""
        found = self.planned.beside
        if found is None:
            return []
        return [
            (Accumulator(self.names.tensors[tv], tv.dtype.compute_type, tv.expr.op), term)
            for (tv, _), term in zip(found.reductions, found.terms, strict=True)
        ]

    def _stores(
        self,
        stores: Sequence[tuple[Store, Index]],
        loads: Sequence[VectorAccess],
        sums: Sequence[tuple[Accumulator, Element]] = (),
    ) -> Scope:
        """What follows from the phases, and what is added to `sums` over columns."""
        self.writer.begin()
        results = [*((s.value, i) for s, i in stores), *(term for _, term in sums)]
        self.writer.evaluate(self._needs([r for r in results if r not in self.writer.known]))
        added = list[LaneStatement]()
        for total, term in sums:
            value = self.writer.convert(term[0], self.writer.values[term], total.dtype)
            added.append(Accumulate(Variable(f"{total.name}_sum[k]", total.dtype), total.op, value))
        writes, vectors = self.accesses.group_stores(targets_of(self.writer, stores))
        statements = (*self.writer.statements, *added, *writes)
        return Scope(self._used(loads, statements), statements, vectors)

    def _results(self) -> Scope:
        """The stores of the sums over columns, of a row."""
        found = self.planned.beside
        if found is None:
            return NOTHING
        for tv, index in found.reductions:
            name, dtype = self.names.tensors[tv], tv.dtype.compute_type
            self.writer.known[tv, index] = Variable(f"{name}_all", dtype)
        self.writer.begin()
        writes, vectors = self.accesses.group_stores(targets_of(self.writer, found.stores))
        return Scope((), tuple(writes), vectors)

    def _used(
        self, loads: Sequence[VectorAccess], statements: Sequence[LaneStatement]
    ) -> tuple[VectorAccess, ...]:
        """The loads that a scope repeats for every row: those of what all columns share."""
        used = loads_read_by(loads, statements)
        of_row = (a for a in used if self.axes.row in a.bases)
        return tuple(a for a in of_row if not is_of_plane(a.offset, self.axes))
