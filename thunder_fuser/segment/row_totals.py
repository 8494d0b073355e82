"""Which reductions over all rows are computed in the launch that reduces each row.

    T1[r] = max(T0[r, :]);  T2 = sum(T1);  T3 = div(T2, n)     all of it at the depth of T1
    T4[r] = sub(T1[r], T2)                                     then T2 is summed behind the cut

That is decided by the sizes, and by the index at which a term reads what rows are reduced to.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import prod

from thunder_fuser.analysis.reductions import column_shape, is_long, plane_of
from thunder_fuser.analysis.totals import is_total, reads_own_rows, rows_of
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.kinds import Kind, never
from thunder_fuser.segment.walks import Walks

MANY = 12288  # rows, whose tickets cost more than a launch: 5 us of 16384 x 4096 on an H200


@dataclass
class RowTotals:
    """What the kernels of each depth reduce over all of their rows, while depths are found.

    `of_rows` is what needs a row's result at its own depth, `single` what follows from totals.
    """

    fusion: Fusion
    depth: dict[TensorView, int]  # of what was met so far
    walks: Walks
    of_rows: Kind = field(init=False)
    single: Kind = field(init=False)
    _taken: set[TensorView] = field(default_factory=set)
    _asked: dict[tuple[TensorView, int], bool] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.of_rows = Kind(self._is_of_rows, self._is_not_taken, never, "")
        reason = "needs a sum over rows whole"
        self.single = Kind(self._taken.__contains__, _is_single, self._leaves, reason)
        self._down = {plane_of(tv) for tv in self.fusion.tensors if column_shape(tv) is not None}

    def rows_first(self) -> list[TensorView]:
        """The tensors of the fusion, producers first: totals that nothing larger needs, sums down
        the columns of rows that blocks share, and what follows from both, behind all others, so
        that the rows are met before."""
        counts = {rows_of(tv) for tv in self.fusion.tensors}
        shared = {plane_of(tv) for tv in self.fusion.tensors if self.walks.is_shared(tv)}
        last: dict[TensorView, None] = {}
        for tv in self.fusion.tensors:
            terms = prod(a.size for a in tv.domain.logical)
            is_whole = terms in counts and is_long(tv) and is_total(tv, terms)
            is_down = column_shape(tv) is not None and plane_of(tv) in shared
            comes_last = is_down or (is_whole and not self._read_at(tv))
            if comes_last or not last.keys().isdisjoint(tv.producers):
                last[tv] = None
        return [*(tv for tv in self.fusion.tensors if tv not in last), *last]

    def join(self, tv: TensorView, depth: int) -> int | None:
        """The first depth from there on whose kernel can have `tv` behind its rows, if one can."""
        for found in sorted(d for d in self.walks.long if d >= depth):
            if self._takes(tv, found):
                self._taken.add(tv)
                return found
        return None

    def is_taken(self, producer: TensorView, consumer: TensorView) -> bool:
        """True where the kernel of the producer can have `consumer` behind its rows."""
        return self._takes(consumer, self.depth[producer])

    def _takes(self, tv: TensorView, depth: int) -> bool:
        if (tv, depth) not in self._asked:
            self._asked[tv, depth] = self._can_take(tv, depth)
        return self._asked[tv, depth]

    def _can_take(self, tv: TensorView, depth: int) -> bool:
        """True for a total of the rows that this depth walks. No template has sums down columns
        beside it, and the blocks of many rows wait for their tickets longer than a launch takes.
        What has one element per row is computed behind the cut, by a kernel that walks what was
        left of the rows anyway: that can sum them too."""
        long = self.walks.long.get(depth, set())
        rows = next((rows for other in long if (rows := rows_of(other)) is not None), 0)
        plane = self.walks.planes[depth]
        if not is_total(tv, rows) or rows > MANY or plane in self._down:
            return False
        if not (is_long(tv) or self._needs_row(tv, depth)) or rows in self._read_at(tv):
            return False
        known = {p for p, at in self.depth.items() if at < depth or p.definition is None}
        return reads_own_rows(tv, long, known)

    def _needs_row(self, tv: TensorView, depth: int) -> bool:
        """True where an operand needs a row's result at that depth."""
        beside = self.of_rows.members.intersection(tv.expr.tensors)
        return any(self.depth[p] == depth for p in beside)

    def _read_at(self, tv: TensorView) -> set[int]:
        """The sizes, above one element, of what needs `tv` directly or by way of one element."""
        found, stack = set[int](), [tv]
        while stack:
            for consumer in self.fusion.uses[stack.pop()]:
                size = prod(a.size for a in consumer.domain.logical)
                if size == 1:
                    stack.append(consumer)
                else:
                    found.add(size)
        return found

    def _leaves(self, producer: TensorView, consumer: TensorView) -> bool:
        """True for more than one element, and for what needs a row beside it."""
        mixes = self._needs_row(consumer, self.depth[producer])
        return mixes or not _is_single(producer, consumer)

    def _is_of_rows(self, tv: TensorView) -> bool:
        return is_long(tv) and tv not in self._taken

    def _is_not_taken(self, producer: TensorView, consumer: TensorView) -> bool:
        return consumer not in self._taken


def _is_single(producer: TensorView, consumer: TensorView) -> bool:
    return prod(a.size for a in consumer.domain.logical) == 1
