"""A row schedule to a row kernel."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import replace
from itertools import chain
from math import prod

from thunder_fuser.analysis.access import Demand, Element, Index, demand
from thunder_fuser.analysis.counts import Counted
from thunder_fuser.analysis.digits import ZERO, Form, Loaded, add, atom, ceil_div, scale
from thunder_fuser.analysis.held import computed_again, is_costly, is_mask
from thunder_fuser.analysis.layout import offset_of
from thunder_fuser.analysis.precision import is_from_one
from thunder_fuser.analysis.reductions import combined_type, is_scan, terms_type
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.chosen import nothing_chosen, of_chosen
from thunder_fuser.kernel.elements import ElementWriter, rounding
from thunder_fuser.kernel.names import name_values, pointers_of, scalars_of
from thunder_fuser.kernel.pairs import pairs_of
from thunder_fuser.kernel.rising import risen_from
from thunder_fuser.kernel.row_ir import (
    Drawn,
    Reduce,
    ReducePhase,
    Risen,
    RowKernel,
    Scan,
    Staged,
    Tail,
    Unchosen,
)
from thunder_fuser.kernel.row_values import RowValues, split
from thunder_fuser.kernel.scopes import Accumulator, Count, Held, Scope
from thunder_fuser.kernel.shifted import row_accesses
from thunder_fuser.kernel.statements import (
    Accumulate,
    Hold,
    LaneStatement,
    Literal,
    Operand,
    Variable,
    VectorAccess,
    WriteElement,
)
from thunder_fuser.kernel.vectors import loads_read_by
from thunder_fuser.schedule.phases import Phase
from thunder_fuser.schedule.row_axes import is_of_all_rows, is_of_row
from thunder_fuser.schedule.row_schedule import RowSchedule
from thunder_fuser.schedule.stored_rows import Place
from thunder_fuser.segment.segment import Store
from thunder_fuser.target import WARP

HELD = 33  # values of a thread's elements that phases leave for each other, one beside its vectors
HELD_OF_READ = 56  # where no whole rows are stored
HELD_BESIDE_SUMS = 16  # where the sums down the columns are in registers too


def lower_rows(planned: RowSchedule, strict: bool, in_flight: int | None = None) -> RowKernel:
    """The kernel of a row schedule. `strict` keeps every rounding of the trace. What phases compute
    alike is computed by the first of them; where they walk so many vectors of a thread `in_flight`
    together, for the phases alone."""
    return _RowWriter(planned, strict, in_flight).write()


class _RowWriter:
    """Collects the scopes of a row kernel."""

    def __init__(self, planned: RowSchedule, strict: bool, in_flight: int | None) -> None:
        self.planned, self.segment, self.axes = planned, planned.segment, planned.axes
        self.strict, self.in_flight = strict, in_flight
        self.names = name_values(planned.segment)
        levels = (*(phase.reductions for phase in planned.phases), planned.totals.reductions)
        self.reductions = [tv for level in levels for tv, _ in level]
        self.summed = {tv for tv, _ in planned.columns.reductions}
        self.accesses = row_accesses(planned, self.names.tensors, self._suffix)
        self.held: set[TensorView] = set()
        self.shared = self._shared()
        self.writer = ElementWriter(
            self.segment,
            self.names.tensors,
            self.names.scalars,
            self.accesses,
            strict,
            holds=self.axes.holds,
            always=self.axes.known,
        )

    def write(self) -> RowKernel:
        planned = self.planned
        totals, single = planned.totals, [(s.value, i) for s, i in planned.single]
        every = [*(t for p in planned.phases for t in p.terms), *planned.whole, *single]
        every += [*planned.columns.terms, *totals.terms, *((s.value, i) for s, i in totals.stores)]
        located = self.writer.locate(filter(self._is_uniform, self._needs(every).places))
        self._request(every)
        loads = self._hinted(self.accesses.group_loads())
        self.accesses.zeros.clear()  # copies of whole rows have what guards leave out
        weights = tuple(a for a in loads if is_of_all_rows(a.offset, self.axes))
        once = [a for a in loads if self.axes.vector not in a.bases]
        self.writer.repeats = self._row_values(once).repeats
        each = self._of_tensors(planned.residency.gathered, once)
        brought = self._of_tensors(planned.residency.brought, once)
        drawn = self._drawn()
        phases = self._phases(loads)
        if self.in_flight is not None:
            self._drop()
            self.writer.lasting.clear()  # those of a chunk
        final, sums = self._final(loads)
        unchosen = self._unchosen(loads, phases)
        self._drop()
        last = self._stores(planned.single, loads, totals.terms)
        self.writer.lasting.clear()
        columns = self._stores(planned.columns.stores, ())
        staged, filled = self._staged(loads, each, final) if planned.is_staged else ((), ())
        return RowKernel(
            pointers=pointers_of(self.segment, self.names),
            scalars=scalars_of(self.names),
            axes=self.axes,
            threads_per_row=planned.threads_per_row,
            rows_per_block=planned.rows_per_block,
            blocks_at_once=planned.residency.blocks,
            slots=planned.residency.slots,
            once=tuple(a for a in once if a not in (*each, *brought)),
            kept=self._loads_in(planned.residency.registers, loads),
            slotted=self._loads_in(planned.residency.shared, loads),
            fixed=weights if planned.residency.weights else (),
            stowed=weights if planned.residency.stowed else (),
            phases=tuple(phases),
            final=final,
            single=last,
            sums=sums,
            columns=columns,
            located=located,
            cluster=planned.residency.cluster,
            splits=planned.splits,
            chunk=planned.chunk,
            tail=self._tail(loads) if totals.reductions else None,
            batch=planned.residency.batch,
            are_parts_outermost=planned.are_pieces_outermost,
            is_reversed=self.segment.is_reversed,
            gathered=() if planned.is_staged else each,
            brought=brought,
            staged=staged,
            filled=filled,
            apart=planned.residency.apart,
            drawn=drawn,
            unchosen=unchosen,
        )

    def _staged(
        self, loads: Sequence[VectorAccess], each: Sequence[VectorAccess], final: Scope
    ) -> tuple[tuple[Staged, ...], tuple[Staged, ...]]:
        """What comes and goes through shared memory, `each` an element a row."""
        sizes = {self.names.tensors[tv]: prod(tv.shape) for tv in self.segment.inputs}
        rows, columns = self.axes.rows, self.axes.columns
        kept = self._loads_in(self.planned.residency.registers, loads)
        if self.axes.side is not None:  # what repeats is in a cache
            kept = tuple(a for a in kept if sizes[a.pointer] == rows * columns)
        staged = [Staged(a, sizes[a.pointer], columns, (a.pointer,)) for a in kept]
        staged += [Staged(a, rows, 1, (a.pointer,)) for a in each]
        first = {a.name: a for a in reversed(final.stores)}  # replicas have a name in common
        filled = []
        for name, access in first.items():
            pointers = tuple(a.pointer for a in final.stores if a.name == name)
            filled.append(Staged(access, rows * columns, columns, pointers))
        return tuple(staged), tuple(filled)

    def _hinted(self, loads: Sequence[VectorAccess]) -> Sequence[VectorAccess]:
        """Loads of rows that blocks share and nobody keeps tell caches that each element is read
        once: a full sum is 5 % faster so. Rows that are kept are slower by as much. Elements of
        which neighbours need each other are read again."""
        if self.planned.splits == 1 or self.planned.full:
            return loads
        of_row = [a for a in loads if is_of_row(a.offset, self.axes)]
        read = [a.pointer for a in of_row]
        once = [a for a in of_row if read.count(a.pointer) == 1 and not a.beside]
        return [replace(a, is_streaming=True) if a in once else a for a in loads]

    def _request(self, results: Sequence[Element]) -> None:
        own = [r for phase in self.planned.phases for r in phase.reductions]
        own += self.planned.totals.reductions
        self.writer.request(self._needs(results), own)

    def _needs(self, results: Sequence[Element]) -> Demand:
        """What `results` need down to memory, the reductions and the row's loaded indices."""
        leaves = self.segment.leaves | set(self.reductions) | self.summed | self.held
        return demand(results, leaves, self._is_uniform)

    def _row_values(self, once: Sequence[VectorAccess]) -> RowValues:
        walked = (axis for axis in (self.axes.vector, self.axes.lane) if axis is not None)
        return RowValues(walked, (a.name for a in once), self.names.scalars.values())

    def _is_uniform(self, place: Loaded) -> bool:
        """True for a loaded index that is the same for the whole row."""
        return place.bases.isdisjoint(self.axes.bases)

    def _suffix(self, tv: TensorView, offset: Form) -> str:
        """Vectors in registers are an array; others are read anew by every scope."""
        where = self.planned.residency
        is_of_own = tv in where.registers and is_of_row(offset, self.axes)
        is_weight = where.weights and is_of_all_rows(offset, self.axes)
        return "[k]" if is_of_own or is_weight else ""

    def _loads_in(
        self, place: Set[TensorView], loads: Sequence[VectorAccess]
    ) -> tuple[VectorAccess, ...]:
        """The loads of the row itself that stay there."""
        of_row = [a for a in loads if is_of_row(a.offset, self.axes)]
        return self._of_tensors(place, of_row)

    def _of_tensors(
        self, place: Set[TensorView], loads: Sequence[VectorAccess]
    ) -> tuple[VectorAccess, ...]:
        names = {self.names.tensors[tv] for tv in place}
        return tuple(a for a in loads if a.pointer in names)

    def _phases(self, loads: Sequence[VectorAccess]) -> Sequence[ReducePhase]:
        planned = self.planned
        phases = [self._phase(phase, loads) for phase in planned.phases]
        is_wide = planned.threads_per_row > WARP
        return of_chosen(phases, planned.phases, self._needs) if is_wide else phases

    def _phase(self, phase: Phase, loads: Sequence[VectorAccess]) -> ReducePhase:
        stored, terms = self.planned.stored_as_summed, self._walked(phase)
        self.writer.begin()
        self.writer.evaluate(self._needs([*terms, *((s.value, i) for s, i in stored)]))
        held = self._hold()
        inside = () if phase.met is not None else self.axes.inside
        accumulated: list[LaneStatement] = []
        risen: list[tuple[Reduce, Reduce, Element, Element]] = []
        reductions: list[Reduce] = []
        scans: list[Scan] = []
        for (tv, index), whole, term in zip(phase.reductions, phase.terms, terms, strict=True):
            row, name = tv.expr.op, self.names.tensors[tv]
            dtype = combined_type(tv)
            value = self.writer.convert(tv, self.writer.values[term], terms_type(tv))
            rounded = rounding(tv, self.segment, self.strict)
            if is_scan(tv):
                result = accumulator = Variable(f"{name}_scan{self._element}", dtype)
                reverse = tv.expr.attr("reverse") is True
                scans.append(Scan(f"{name}_scan", dtype, row, reverse, rounded))
            else:
                accumulator = Variable(f"{name}_part", dtype)
                result = Variable(f"{name}_row", dtype, True, is_from_one(tv))
                reductions.append(Reduce(accumulator, result, row, rounded))
                if term != whole:
                    most = replace(reductions[-1], accumulator=Variable(f"{name}_most", dtype))
                    risen.append((most, reductions[-1], term, whole))
                    accumulator = most.accumulator
            accumulated.append(Accumulate(accumulator, row, value, inside))
            self.writer.known[tv, index] = result
        writes, vectors = self._writes(stored)
        scope = self._scope(loads, [*writes, *accumulated], vectors)
        pairs = pairs_of(scope, loads, self.axes.lanes)
        behind = tuple(self._risen(*each) for each in risen)
        return ReducePhase(scope, tuple(reductions), tuple(scans), held, phase.met, pairs, behind)

    def _walked(self, phase: Phase) -> tuple[Element, ...]:
        """What a phase takes of each element: its terms, or the elements of which they are rising
        functions, of those that are an extremum."""

        def taken(reduction: TensorView, term: Element) -> Element:
            is_extremum = reduction.expr.op.in_pairs and not is_scan(reduction)
            found = risen_from(self._needs([term]), self.segment.fast) if is_extremum else None
            return found if found is not None and found[0] in self.segment.leaves else term

        both = zip(phase.reductions, phase.terms, strict=True)
        return tuple(taken(tv, term) for (tv, _), term in both)

    def _risen(self, most: Reduce, whole: Reduce, source: Element, term: Element) -> Risen:
        """What follows from the largest element, also where that of each is held for others."""
        self.writer.begin()
        self.writer.values[source] = most.accumulator
        self.writer.evaluate(demand([term], {source[0]}, self._is_uniform))
        value = self.writer.convert(term[0], self.writer.values[term], whole.accumulator.dtype)
        last = Accumulate(whole.accumulator, whole.op, value)
        return Risen(most, (*self.writer.statements, last))

    def _shared(self) -> tuple[tuple[Element, ...], ...]:
        """What phases compute alike, if a thread has registers for it: elements of one value."""
        planned, where = self.planned, self.planned.residency
        vectors = self.in_flight or ceil_div(self.axes.vectors, planned.threads_per_row)
        is_again = planned.splits > 1 or planned.chunk or not (where.registers or where.shared)
        sums = planned.columns
        if is_again:
            return ()
        scopes = [self._walked(phase) for phase in planned.phases]
        if self.in_flight is None:
            scopes.append((*((s.value, i) for s, i in planned.full), *sums.read))
        most = HELD if planned.full else HELD_OF_READ
        most = HELD_BESIDE_SUMS if sums.reductions else most
        room = most // (vectors * self.axes.lanes + self.axes.has_edges)
        found = self._computed_again(scopes)
        if sum(not is_mask(alike[0][0]) for alike in found) <= room:
            return found
        return self._beside_masks(scopes, room)

    def _computed_again(
        self, scopes: Sequence[Sequence[Element]], *, masks_apart: bool = False
    ) -> tuple[tuple[Element, ...], ...]:
        every = [(results, self._needs(results)) for results in scopes]
        behind, of_rows = self._behind(), set(self.reductions)
        return tuple(
            alike
            for alike in computed_again(every, of_rows, behind, masks_apart=masks_apart)
            if any(self.axes.vector in form.bases for form in alike[0][1])
        )

    def _beside_masks(
        self, scopes: Sequence[Sequence[Element]], room: int
    ) -> tuple[tuple[Element, ...], ...]:
        """Values that have `room`, and masks of which other values are made anew."""
        found = self._computed_again(scopes, masks_apart=True)
        values = [alike for alike in found if not is_mask(alike[0][0])][:room]
        self.held = {tv for alike in values for tv, _ in alike}
        anew = [self._needs(results).elements for results in scopes[1:]]
        self.held = set()
        masks = [alike for alike in found if is_mask(alike[0][0])]
        needed = [alike for alike in masks if any(key in made for key in alike for made in anew)]
        return (*needed, *values)

    def _behind(self) -> set[TensorView]:
        """What reductions lead to and is held, where no whole rows are stored: exact functions, and
        beside sums down the columns, whose instructions memory waits for, all."""
        if self.planned.full or self.in_flight is not None:
            return set()
        made = {tv for tv in self.segment.tensors if is_costly(tv)}
        return made if self.planned.columns.reductions else made - self.segment.fast

    def _drawn(self) -> tuple[Drawn, ...]:
        """Masks that nothing read leads to, such as a dropout's, of rows that come meanwhile. Rows
        side by side come turns before, and an element beside vectors has no place among them."""
        axes, found = self.axes, list[Drawn]()
        if axes.has_edges or axes.side is not None or self.in_flight is not None:
            return ()
        for alike in self.shared:
            needs = self._needs(alike[:1])
            if is_mask(alike[0][0]) and not needs.leaves:
                self.writer.begin()
                self.writer.evaluate(needs)
                value = self.writer.values[alike[0]]
                place = f"{Drawn.BITS}[0][{self.accesses.lane_index}]"
                bit = Hold(Variable(place, value.dtype), value)
                found.append(Drawn(self._left_in_place(alike, value), self._scope((), [bit], ())))
        return tuple(found)

    def _hold(self) -> tuple[Held, ...]:
        """The arrays of what the scope computed that others will need."""
        found: list[Held] = []
        for alike in self.shared:
            made = [k for k in alike if k in self.writer.values and k not in self.writer.known]
            if made:
                value = self.writer.values[made[0]]
                found.append(self._left_in_place(alike, value))
                place = Variable(found[-1].name + self._element, value.dtype)
                self.writer.statements.append(Hold(place, value))
        return tuple(found)

    def _left_in_place(self, alike: Sequence[Element], value: Operand) -> Held:
        """The array of a value for the scopes behind, which know those `alike` from there."""
        array = Held(f"{self.names.tensors[alike[0][0]]}_held", value.dtype)
        place = array.name + self._element
        known = Variable(f"bool({place})" if array.is_packed else place, value.dtype)
        self.writer.known |= dict.fromkeys(alike, known)
        self.held |= {tv for tv, _ in alike}
        return array

    def _drop(self) -> None:
        """What is held is no longer known."""
        for key in chain.from_iterable(self.shared):
            self.writer.known.pop(key, None)
        self.held.clear()

    @property
    def _element(self) -> str:
        """The thread's own element in an array of one per lane of each of its vectors."""
        return f"[k][{self.accesses.lane_index}]"

    def _final(
        self, loads: Sequence[VectorAccess], zeros: Set[TensorView] = frozenset()
    ) -> tuple[Scope, tuple[Accumulator, ...]]:
        """The stores of whole rows behind the phases, and the row's part of the column sums, but of
        those whose terms are `zeros`."""
        sums, stored = self.planned.columns, self.planned.stored_behind
        self.writer.begin()
        full = [(s.value, i) for s, i in stored]
        counted = sums.counts
        self.writer.evaluate(self._needs([*full, *sums.read]))
        accumulated, accumulators, counts = [], [], []
        for (tv, index), term in zip(sums.reductions, sums.terms, strict=True):
            if term[0] in zeros:
                continue
            dtype, name = tv.dtype.compute_type, f"{self.names.tensors[tv]}_part"
            accumulator = Variable(name + self._element, dtype)
            accumulators.append(Accumulator(name, dtype, tv.expr.op, is_count=tv in counted))
            if tv in counted:
                counts.append(self._count(accumulators[-1], counted[tv]))
            else:
                value = self.writer.convert(tv, self.writer.values[term], dtype)
                accumulated.append(Accumulate(accumulator, tv.expr.op, value))
            self.writer.known[tv, index] = accumulator
        writes, vectors = self._writes(stored)
        scope = self._scope(loads, [*writes, *accumulated], vectors)
        return replace(scope, counts=tuple(counts)), tuple(accumulators)

    def _count(self, accumulator: Accumulator, counted: Counted) -> Count:
        lane = ZERO if self.axes.lane is None else atom(self.axes.lane)
        first = add(counted.place, scale(lane, -1))
        return Count(accumulator.counts, self.writer.values[counted.value], first)

    def _unchosen(
        self, loads: Sequence[VectorAccess], phases: Sequence[ReducePhase]
    ) -> Unchosen | None:
        """What warps do instead that have none of which the column sums are; None where all do."""
        sums, known = self.planned.columns, dict(self.writer.known)
        if self.planned.threads_per_row <= WARP or not sums.reductions:
            return None
        stored = [(s.value, i) for s, i in self.planned.stored_behind]
        needs = self._needs([*stored, *sums.terms])
        along = {axis for axis in (self.axes.vector, self.axes.lane) if axis is not None}
        finite = None if self.strict else along
        chosen, zeros = nothing_chosen(phases, self.planned.phases, needs, finite)
        if not zeros.intersection(tv for tv, _ in sums.terms):
            return None
        self.held |= zeros
        self.writer.known |= {
            (tv, index): Literal(0, tv.dtype.compute_type)
            for tv, index in needs.elements
            if tv in zeros
        }
        scope, _ = self._final(loads, zeros)
        self.held -= zeros
        self.writer.known = known
        return Unchosen(scope, chosen)

    def _scope(
        self,
        loads: Sequence[VectorAccess],
        behind: Sequence[LaneStatement],
        stores: tuple[VectorAccess, ...],
    ) -> Scope:
        """What was written for the vectors of a row, with what is done `behind` it, and apart from
        that what there is once a row."""
        once, each = split(self.writer.statements)
        self.writer.lasting |= {(s.value, s.variable.dtype): s.variable for s in once}
        statements = (*each, *behind)
        return Scope(self._used(loads, statements), statements, stores, once=once)

    def _stores(
        self,
        stores: Sequence[tuple[Store, Index]],
        loads: Sequence[VectorAccess],
        left: Sequence[Element] = (),
    ) -> Scope:
        """What follows from the phases: stores, and terms that are `left` for the totals."""
        self.writer.begin()
        results = [*((s.value, i) for s, i in stores), *left]
        self.writer.evaluate(self._needs([r for r in results if r not in self.writer.known]))
        lefts = self._left(left)
        writes, vectors = self._writes(stores)
        statements = (*self.writer.statements, *writes, *lefts)
        return Scope(self._used(loads, statements), statements, vectors)

    def _left(self, terms: Sequence[Element]) -> list[LaneStatement]:
        """The row's terms, written where the last block reads them."""
        found: list[LaneStatement] = []
        for total, term in zip(self._totals() if terms else (), terms, strict=True):
            tv, dtype = term[0], total.accumulator.dtype
            value = self.writer.convert(tv, self.writer.values[term], dtype)
            found.append(WriteElement(Tail.left(total), self.axes.row, value, dtype))
        return found

    def _totals(self) -> list[Reduce]:
        found = []
        for tv, _ in self.planned.totals.reductions:
            name, dtype = self.names.tensors[tv], tv.dtype.compute_type
            accumulator, result = Variable(f"{name}_part", dtype), Variable(f"{name}_total", dtype)
            rounded = rounding(tv, self.segment, self.strict)
            found.append(Reduce(accumulator, result, tv.expr.op, rounded))
        return found

    def _tail(self, loads: Sequence[VectorAccess]) -> Tail:
        totals, planned = self._totals(), self.planned.totals
        results = (total.result for total in totals)
        self.writer.known |= dict(zip(planned.reductions, results, strict=True))
        return Tail(tuple(totals), self._stores(planned.stores, loads))

    def _writes(
        self, stores: Sequence[tuple[Store, Index]]
    ) -> tuple[list[LaneStatement], tuple[VectorAccess, ...]]:
        targets, guards = [], {}
        for s, index in stores:
            for place in self.planned.places.get((s, index), (Place(index),)):
                offset = offset_of(self.segment.layouts[s.target], place.index)
                targets.append((s.target, offset, self.writer.values[s.value, index]))
                guards[s.target, offset] = place.guards
        self.accesses.guards = guards
        return self.accesses.group_stores(targets)

    def _used(
        self, loads: Sequence[VectorAccess], statements: Sequence[LaneStatement]
    ) -> tuple[VectorAccess, ...]:
        """The loads that a scope repeats for every vector."""
        used = loads_read_by(loads, statements)
        return tuple(a for a in used if self.axes.vector in a.bases)
