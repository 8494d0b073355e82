"""How many cuts lie before each tensor.

    T1 = sum(T0, columns); T2 = T0 * T1     T1 at depth 0, T2 at depth 1: it needs T1 whole
    T3 = segment_set(T2); T4 = neg(T3)      T2 at depth 1, T4 at depth 2

A kernel computes tensors of one depth, and what it recomputes of lower ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.elementwise import is_elementwise
from thunder_fuser.analysis.layout import dense_strides
from thunder_fuser.analysis.reductions import (
    column_shape,
    is_along,
    is_grouped,
    is_long,
    is_ordering,
    is_scan,
    is_stage,
    is_walked,
    met_rows,
    row_shape,
)
from thunder_fuser.analysis.views import is_same_order, is_stop
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.segment.kinds import NOTHING, Kind, Pair, Test, always, never
from thunder_fuser.segment.row_totals import RowTotals
from thunder_fuser.segment.walks import Walks


@dataclass(frozen=True)
class Depths:
    """How many cuts lie before each tensor of `fusion`, and the kinds of tensors that need some.
    Torch runs the `opaque` ones between kernels."""

    fusion: Fusion
    opaque: frozenset[TensorView]
    cuts: Mapping[TensorView, int]
    kinds: tuple[Kind, ...]

    def __getitem__(self, tv: TensorView) -> int:
        return self.cuts[tv]

    def reasons(self) -> dict[int, str]:
        """Why there is a cut before each depth but the first: what the first tensor of that depth
        needs."""
        found: dict[int, str] = {}
        for tv in self.fusion.tensors:
            before = [p for p in tv.producers if self[p] < self[tv]]
            if before and tv not in self.opaque:
                found.setdefault(self[tv], self._reason(tv, before))
        return found

    def _reason(self, tv: TensorView, before: Sequence[TensorView]) -> str:
        """Why a tensor lies deeper than its producers `before` it."""
        if any(map(is_stop, before)):
            return _stopped(tv)
        if is_ordering(tv):
            return "puts an index in order that must be stored first"
        if any(p in self.opaque for p in before):
            return "reads what a segment of torch's computes"
        cuts = (k.reason for k in self.kinds for p in before if p in k.members and k.cut(p, tv))
        return next(cuts, "reduces over other axes than what is before it")


def depths(
    fusion: Fusion,
    opaque: frozenset[TensorView],
    constants: frozenset[TensorView],
    is_shared: Test = NOTHING,
    is_late: Test = NOTHING,
    is_kept: Test = NOTHING,
) -> Depths:
    """The depth of every tensor. All long reductions of one depth walk one plane; torch runs the
    `opaque` ones between kernels; `constants` are written as literals at any depth, so 0. Several
    blocks share each row of a reduction that `is_shared`; a reduction that `is_late` is not where
    the rows of its terms are reduced. A block keeps the columns of one that `is_kept`, until all
    that needs its results is computed."""
    found: dict[TensorView, int] = {}
    walks = Walks(is_shared)
    totals = RowTotals(fusion, found, walks)

    def outgrows(producer: TensorView, consumer: TensorView) -> bool:
        """True for more elements than the plane has that was reduced to `producer`."""
        return prod(consumer.shape) > prod(walks.planes.get(found[producer]) or (0,))

    def comes_late(producer: TensorView, consumer: TensorView) -> bool:
        return is_late(consumer)

    kinds = (
        *_kinds(is_shared, is_kept, outgrows, totals),
        Kind(
            is_along,
            always,
            comes_late,
            "reduces over other rows what was made of reductions along them",
        ),
        totals.of_rows,
        totals.single,
    )
    for tv in totals.rows_first():
        producers = tv.producers
        cut_after = {p for p in producers if is_stop(p) or p in opaque}
        if is_ordering(tv):  # of an index in memory, or computed of what is
            cut_after |= {p for p in producers if not (is_elementwise(p) or is_ordering(p))}
        cut_after |= {p for k in kinds for p in producers if p in k.members and k.cut(p, tv)}
        before = max((found[p] + (p in cut_after) for p in producers), default=0)
        if tv in opaque:
            before += any(p.definition is not None for p in producers)
        elif not is_ordering(tv) and (joined := totals.join(tv, before)) is not None:
            before = joined
        elif is_long(tv) and not is_ordering(tv):
            before = walks.join(tv, before)
        found[tv] = 0 if tv in constants else before
        for kind in kinds:
            near = (p for p in producers if p in kind.members and found[p] == before)
            if any(kind.follows(p, tv) for p in near) or (tv not in opaque and kind.begins(tv)):
                kind.members.add(tv)
    return Depths(fusion, opaque, found, kinds)


def _stopped(tv: TensorView) -> str:
    if tv.family is Family.GATHER:
        return f"{tv.expr.op.name} reads what must be stored first"
    return "behind a stop point"


def _kinds(is_shared: Test, is_kept: Test, outgrows: Pair, totals: RowTotals) -> tuple[Kind, ...]:
    def is_walked_down(tv: TensorView) -> bool:
        return _is_summed_down(tv) and not is_kept(tv)

    def joins_rows(producer: TensorView, consumer: TensorView) -> bool:
        return _joins_rows(producer, consumer) and not totals.is_taken(producer, consumer)

    return (
        Kind(is_walked_down, always, _needs_whole, "needs a reduction down columns whole"),
        Kind(is_shared, always, _needs_whole, "needs a row that blocks share whole"),
        Kind(is_along, _is_one_per_row, joins_rows, "reduces what several rows were reduced to"),
        Kind(is_along, _is_one_per_row, outgrows, "is larger than what was reduced"),
        Kind(is_along, always, _needs_many, "carries on along rows that no block keeps"),
        Kind(is_walked, _goes_on, _is_reduced, "reduces a running sum of rows that no block keeps"),
        Kind(_is_scanned_down, _goes_on, _is_reduced, "reduces a running sum down columns"),
        Kind(is_scan, _goes_on, _leaves_scan, "reads a running sum at other places"),
        Kind(is_ordering, never, _leaves_order, "reads an index in order"),
        Kind(is_grouped, _stays_in_group, _leaves_group, "reads sums of groups at other places"),
    )


def _leaves_order(producer: TensorView, consumer: TensorView) -> bool:
    return not is_ordering(consumer) or is_stage(producer)


def _goes_on(producer: TensorView, consumer: TensorView) -> bool:
    return not _reduces(consumer)


def _is_reduced(producer: TensorView, consumer: TensorView) -> bool:
    return is_long(consumer)


def _is_summed_down(tv: TensorView) -> bool:
    """True for reductions and scans down columns."""
    return column_shape(tv) is not None


def _needs_whole(producer: TensorView, consumer: TensorView) -> bool:
    """True where one element of `consumer` needs other columns or is needed by many rows."""
    return _reduces(consumer) or prod(consumer.shape) > prod(producer.shape)


def _is_scanned_down(tv: TensorView) -> bool:
    """True for scans along another axis than the innermost."""
    return is_scan(tv) and column_shape(tv) is not None


def _needs_many(producer: TensorView, consumer: TensorView) -> bool:
    """True for a running sum that begins before the whole row was walked."""
    return is_walked(consumer)


def _is_one_per_row(producer: TensorView, consumer: TensorView) -> bool:
    return prod(consumer.shape) <= prod(producer.shape) and not is_long(consumer)


def _joins_rows(producer: TensorView, consumer: TensorView) -> bool:
    """True for a short reduction over several rows' sums, which no thread of one row has, unless
    they meet in its block."""
    few = prod(consumer.shape) < prod(producer.shape)
    is_apart = not is_long(consumer) and met_rows(consumer) is None
    return _reduces(consumer) and is_apart and few


def _leaves_scan(producer: TensorView, consumer: TensorView) -> bool:
    """False for what is computed from a running sum element by element, or reduces its rows."""
    if is_long(consumer):
        return row_shape(consumer) is None
    is_pointwise = consumer.family is Family.POINTWISE
    is_same = is_pointwise or _merges(producer, consumer)
    return not is_same or prod(consumer.shape) != prod(producer.shape)


def _merges(producer: TensorView, consumer: TensorView) -> bool:
    """True for a reshape that only makes neighbouring dims one."""
    return consumer.is_of("reshape") and _steps(consumer) <= _steps(producer)


def _steps(tv: TensorView) -> set[int]:
    """The elements between neighbours along each dim, in row-major order."""
    strides = zip(dense_strides(tv.shape), tv.shape, strict=True)
    return {stride for stride, size in strides if size != 1}


def _stays_in_group(producer: TensorView, consumer: TensorView) -> bool:
    return not _leaves_group(producer, consumer)


def _leaves_group(producer: TensorView, consumer: TensorView) -> bool:
    """False for what is computed from sums of groups element by element."""
    if prod(consumer.shape) != prod(producer.shape) or _reduces(consumer) or is_long(consumer):
        return True
    is_pointwise = consumer.family is Family.POINTWISE
    return not (is_pointwise or _lines_up(producer, consumer))


def _lines_up(producer: TensorView, consumer: TensorView) -> bool:
    """True for a view of the same elements in the same order, whose rows are rows or whole parts
    of rows of its producer, or the reverse."""
    sizes = (dense_strides(producer.shape), dense_strides(consumer.shape))
    rows = all(a % b == 0 or b % a == 0 for a in sizes[0] for b in sizes[1])
    return rows and is_same_order(producer, consumer)


def _reduces(tv: TensorView) -> bool:
    return any(a.is_reduction for a in tv.domain.logical)
