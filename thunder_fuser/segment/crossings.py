"""What is made before a cut and read behind it: kept in memory, or computed again.

T2 = neg(T0); T3 = segment_set(T2 * T1); T4 = T3 + T2     T2 again, from T0: one plane read for
                                                          one written and one read
T2 = rsqrt(sum(T0)), read for all elements of T0          kept, by the kernel that has the sum
T9 = T0 + silu(norm(T0)) + ..., of several layers         kept, where the work of all takes longer
T7 = f(T0, T1, sum(T0 * T1)), read behind two cuts        kept: one plane written and two read, for
                                                          four
T3 = lt(abs(T0 - T1), 1); T6 = sum(where(T3, T0, T1))     T3 again, as T6 reads both anyway
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from thunder_fuser.analysis.reductions import is_long, is_reduction
from thunder_fuser.ir.fusion import topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Cost, Family
from thunder_fuser.segment.carry import bytes_of, carried
from thunder_fuser.segment.memory import Memory

PLAIN = frozenset({Family.POINTWISE, Family.VIEW, Family.FULL, Family.IOTA})  # element by element
SPREAD = 16  # elements for each of a value, from which on that is not computed for all of them
SLIGHT = 16  # what is so many times smaller counts as nothing beside what is written and read
WORK = {Cost.FREE: 0, Cost.CHEAP: 1, Cost.EXPENSIVE: 16}  # instructions for an element
# Instructions that may be done again for each element of a value. Argued, not measured: while
# memory moves a byte an H200 has issued 7 for an element and an H100 10 (132 multiprocessors, 4
# warps a cycle, 1.75 GHz; 4.25 and 3.04 TB/s), so that a value in 32 bits, written and read, takes
# as long as 56 to 80; as many again are hidden behind what the kernel that has it moves anyway.
MAX_WORK = 128


def keep_crossings(memory: Memory, indexing: frozenset[TensorView]) -> None:
    """Have in memory what is read behind a later cut and costs more to compute again there. What is
    `indexing` never is."""
    crossings = _Crossings(memory, indexing)
    for depth in range(max(memory.stored, default=0), -1, -1):  # keeping adds lower depths
        if depth not in memory.stored:
            continue
        for tv in crossings.cone(depth):
            if crossings.is_read(tv, depth) and not crossings.is_there_anyway(tv, depth):
                crossings.keep(carried(tv))


@dataclass
class _Crossings:
    memory: Memory
    indexing: frozenset[TensorView]
    cheap: dict[TensorView, bool] = field(default_factory=dict)  # as long as `memory` stays
    spread: dict[TensorView, bool] = field(default_factory=dict)  # so, too
    reached: dict[TensorView, dict[TensorView, None]] = field(default_factory=dict)  # so, too
    before: dict[int, set[TensorView]] = field(default_factory=dict)

    def keep(self, tv: TensorView) -> None:
        """Have `tv` in memory, and forget what was known of all that depends on it."""
        self.memory.keep(tv)
        self.reached.clear()
        uses, stack, seen = self.memory.fusion.uses, [tv], {tv}
        while stack:
            current = stack.pop()
            self.cheap.pop(current, None)
            self.spread.pop(current, None)
            new = [u for u in uses[current] if u not in seen]
            seen.update(new)
            stack.extend(new)

    def cone(self, depth: int) -> list[TensorView]:
        """What the stores of one depth read and compute, consumers first."""
        roots, values = self.memory.made(depth), self.memory.values
        return [tv for tv in self._reach(roots, depth) if tv not in values and tv not in roots]

    def _reach(self, roots: Sequence[TensorView], depth: int) -> dict[TensorView, None]:
        """Stores of one depth and what they read and compute, down to what is in memory."""
        seen: dict[TensorView, None] = {}
        stack = list(roots)
        while stack:
            tv = stack.pop()
            if tv in seen:
                continue
            seen[tv] = None
            is_given = tv in self.memory.values and tv not in roots
            if tv.definition is not None and not (is_given or self.is_read(tv, depth)):
                stack.extend(tv.producers)
        return seen

    def is_there_anyway(self, tv: TensorView, depth: int) -> bool:
        """True for what is no work, element by element, of tensors that every store of that depth
        which needs it reads beside it, or of small ones: what rows came to before, which will be
        there too. A view of memory is none, and kept as that."""
        given = self.memory.values.keys() | self._sums_before(depth)
        made = tuple(topological([carried(tv)], given))
        computed = [t for t in made if t.definition is not None and t not in given]
        families = {t.family for t in computed}
        is_plain = Family.POINTWISE in families <= PLAIN
        if not is_plain or sum(map(_work, computed)) > _most_work(tv):
            return False
        sources = {t for t in made if t in given and SLIGHT * bytes_of(t) > bytes_of(tv)}
        reached = (self._reached(root, depth) for root in self.memory.made(depth))
        return all(sources <= found.keys() for found in reached if tv in found)

    def _sums_before(self, depth: int) -> set[TensorView]:
        """What reductions of earlier depths came to."""
        if depth not in self.before:
            tensors, depths = self.memory.fusion.tensors, self.memory.depth
            self.before[depth] = {t for t in tensors if is_reduction(t) and depths[t] < depth}
        return self.before[depth]

    def _reached(self, root: TensorView, depth: int) -> dict[TensorView, None]:
        """By one store."""
        if root not in self.reached:
            self.reached[root] = self._reach((root,), depth)
        return self.reached[root]

    def is_read(self, tv: TensorView, depth: int) -> bool:
        """True for what a kernel of that depth reads in memory, as an earlier one made it."""
        is_earlier = self.memory.depth[tv] < depth
        return is_earlier and (not self._is_cheap(tv) or self._is_spread(tv))

    def _is_spread(self, tv: TensorView) -> bool:
        if tv not in self.spread:
            self.spread[tv] = self._spreads_sums(tv)
        return self.spread[tv]

    def _spreads_sums(self, tv: TensorView) -> bool:
        """True for a function of sums that readers would compute for many elements each: the square
        root of a channel's, for all of the channel. Who has the sums can store it."""
        if tv.definition is None or tv.definition.op.cost is not Cost.EXPENSIVE:
            return False
        if not self._most[tv] >= SPREAD * prod(tv.shape) > 0:
            return False
        return any(map(is_long, topological([tv], self.memory.values)))

    @cached_property
    def _most(self) -> Mapping[TensorView, int]:
        """The most elements of what is computed from each tensor without a reduction."""
        fusion, most = self.memory.fusion, dict[TensorView, int]()
        for tv in reversed(fusion.tensors):
            uses = (u for u in fusion.uses[tv] if not is_reduction(u))
            most[tv] = max((prod(tv.shape), *(most[u] for u in uses)))
        return most

    def _is_cheap(self, tv: TensorView) -> bool:
        """True where recomputing costs no more bytes than writing and reading the value, or but a
        few, and no work that takes longer. What lies behind a cut before `tv` is read from memory,
        unless it is cheap itself."""
        if tv not in self.cheap:
            self.cheap[tv] = tv in self.indexing or self._recomputes_cheaply(tv)
        return self.cheap[tv]

    def _recomputes_cheaply(self, tv: TensorView) -> bool:
        depth = self.memory.depth
        extra, work, stack, seen = 0, 0, [tv], set()
        while stack and work <= _most_work(tv):
            current = stack.pop()
            if current in seen:
                continue
            seen.add(current)
            kept = depth[current] < depth[tv] and not self._is_cheap(current)
            kept |= current is not tv and is_reduction(current)  # it will be, if `tv` is not
            if kept or current in self.memory.values or current.definition is None:
                extra += bytes_of(current)
            elif current.definition.op.cost is Cost.NEVER:
                return False
            else:
                stack.extend(current.definition.tensors)
                extra += _repeated(current)
                work += _work(current)
        own = bytes_of(tv)
        readers = self._readers(tv) if extra > own else 1
        more = readers * extra - (readers + 1) * own
        return work <= _most_work(tv) and SLIGHT * more <= own

    def _readers(self, tv: TensorView) -> int:
        """How many kernels behind the cut read `tv`, if the one that makes it has what it is made
        of before it, for sums of its own; else one: who stores it reads what it is made of, too."""
        depth, uses = self.memory.depth, self.memory.fusion.uses
        made = topological([tv], self.memory.values)
        if not any(is_long(t) and depth[t] == depth[tv] for t in made):
            return 1
        found, stack, seen = set[int](), [tv], {tv}
        while stack:
            for use in uses[stack.pop()]:
                if use in self.memory.values or is_long(use):
                    found.add(depth[use])
                elif use not in seen:
                    seen.add(use)
                    stack.append(use)
        return max(1, sum(d > depth[tv] for d in found))


def _work(tv: TensorView) -> int:
    """Instructions for all elements."""
    return prod(tv.shape) * WORK[tv.expr.op.cost]


def _most_work(tv: TensorView) -> int:
    """What may be done again for a tensor."""
    return MAX_WORK * prod(tv.shape)


def _repeated(tv: TensorView) -> int:
    """Bytes that a gather reads beyond those that its producer has: of rows that are there several
    times."""
    if tv.family is not Family.GATHER:
        return 0
    table = tv.expr.tensors[0]
    return max(prod(tv.shape) - prod(table.shape), 0) * table.dtype.itemsize
