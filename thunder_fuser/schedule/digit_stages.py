"""T10, the digit template: a stage of the order of a long index, by one of its digits.

    T1 = digit_counts(T0, 200000, low=0, bits=9, chunk=8192)
    T2 = digit_order(T0, T1, ...), T3 = digit_keys(T0, T1, ...)
    T4 = group_ends(T3, 200000)

Each of the three is a kernel. A block counts the digits of a chunk of places; it moves a chunk,
where the counts of all chunks tell it to; or it finds where neighbouring groups end in keys that
are in order. It waits for no other block, and what it reads does not grow with the groups.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from thunder_fuser.analysis.digit_stages import MAX_BITS, MIN_BITS, is_chunk, threads_of
from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.reductions import is_stage, made_by, terms_of
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops.groups import counted_chunks
from thunder_fuser.schedule.needs import check_index
from thunder_fuser.schedule.ordering import groups_of
from thunder_fuser.schedule.parameters import DigitParameters
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import Target

OWN = 4  # groups of a thread that looks for their ends, which takes as long as for one
PREFERRED = DigitParameters()
ORDERS, KEYS = ("digit_order", "digit_reorder"), "digit_keys"


@dataclass(frozen=True)
class Digit:
    """The `bits` from `low` on of the elements of `keys`, in chunks of so many places."""

    keys: TensorView
    low: int
    bits: int
    chunk: int

    def __str__(self) -> str:
        return f"bits {self.low} to {self.low + self.bits - 1}, {self.chunk} places a block"

    @property
    def blocks(self) -> int:
        return ceil_div(self.keys.shape[0], self.chunk)

    @property
    def counted(self) -> int:
        """Chunks of which there are counts: those behind the last place are empty."""
        return counted_chunks(self.keys.shape[0], self.chunk)


@dataclass(frozen=True, eq=False)
class CountSchedule:
    """Of groups below `count`."""

    segment: Segment
    digit: Digit
    count: int
    threads: int

    def __str__(self) -> str:
        return f"counts of the digits of {_shape(self.segment, self.digit)} of {self.threads}"


@dataclass(frozen=True, eq=False)
class PutSchedule:
    """Of places that an order before has, or of all in turn; `counts` are those of the chunks."""

    segment: Segment
    digit: Digit
    counts: TensorView
    places: TensorView | None
    threads: int

    def __str__(self) -> str:
        names = self.segment.names
        made = ", ".join(f"{names[s.value]} = {s.value.expr.op.name}" for s in self.segment.stores)
        shape = _shape(self.segment, self.digit)
        return f"order by the digits of {shape} of {self.threads}\n  {made}"


@dataclass(frozen=True, eq=False)
class EndsSchedule:
    """Of groups below `count`, of which a thread has a few."""

    segment: Segment
    keys: TensorView
    count: int
    threads: int

    @property
    def groups(self) -> int:
        """Of a block."""
        return self.threads * OWN

    def __str__(self) -> str:
        keys, places = self.segment.names[self.keys], self.keys.shape[0]
        return f"ends of {self.count} groups in {keys} of {places}, {self.groups} groups a block"


DigitSchedule: TypeAlias = CountSchedule | PutSchedule | EndsSchedule


def _shape(segment: Segment, digit: Digit) -> str:
    return f"{segment.names[digit.keys]} of {digit.keys.shape[0]}, {digit}"


def schedule(
    segment: Segment, target: Target, parameters: DigitParameters = PREFERRED
) -> DigitSchedule:
    """The stage and the threads of a block. Raises Rejected."""
    values = [store.value for store in segment.stores]
    if any(store.is_in_place for store in segment.stores):
        raise Rejected("a stage of an order goes to a buffer of its own")
    if len(values) == 1 and values[0].is_of("group_ends"):
        return ends_of(segment, values[0], parameters.threads)
    if not values or not all(map(is_stage, values)):
        raise Rejected("not a stage of the order of an index, or others beside it")
    digits = {_digit(tv) for tv in values}
    if len(digits) != 1:
        raise Rejected("stages by several digits")
    digit = digits.pop()
    if not MIN_BITS <= digit.bits <= MAX_BITS or not is_chunk(digit.chunk, digit.bits):
        raise Rejected(f"no block has {digit}")
    check_index(segment, digit.keys)
    threads = threads_of(digit.bits)
    if len(values) == 1 and values[0].is_of("digit_counts"):
        return CountSchedule(segment, digit, groups_of(values[0]), threads)
    return _put(segment, values, digit, threads)


reject = rejecting(schedule)


def _put(segment: Segment, values: Sequence[TensorView], digit: Digit, threads: int) -> PutSchedule:
    """Counts and orders that a caller gives would lead to places outside of the order."""
    kinds = ["order" if tv.is_of(*ORDERS) else tv.expr.op.name for tv in values]
    made = {made_by(tv) for tv in values}
    if len(made) > 1 or len(set(kinds)) < len(kinds) or "digit_counts" in kinds:
        raise Rejected("several orders by a digit")
    counts = made.pop()
    if not counts.is_of("digit_counts") or _digit(counts) != digit:
        raise Rejected("counts of other digits than those that are put in order")
    before = [tv.expr.tensors[2] for tv in values if tv.is_of("digit_reorder")]
    if any(not tv.is_of(*ORDERS) for tv in before):
        raise Rejected("another order than one by the digits before")
    for tv in (counts, *before):
        if tv not in segment.leaves or segment.layouts[tv].strides != (1,):
            raise Rejected("what a stage before made is not in memory")
    places = before[0] if before else None
    return PutSchedule(segment, digit, counts, places, threads)


def ends_of(segment: Segment, ends: TensorView, threads: int) -> EndsSchedule:
    """How blocks of so many threads find `ends`. Raises Rejected for keys that a caller gives,
    which may be in no order."""
    keys = terms_of(ends)
    if not ends.is_of("group_ends") or not keys.is_of(KEYS):
        raise Rejected("ends of keys that no stage has put in order")
    if keys not in segment.leaves or segment.layouts[keys].strides != (1,):
        raise Rejected("what a stage before made is not in memory")
    return EndsSchedule(segment, keys, groups_of(ends), threads)


def _digit(tv: TensorView) -> Digit:
    attrs = dict(tv.expr.attrs)
    low, bits, chunk = (attrs[name] for name in ("low", "bits", "chunk"))
    assert isinstance(low, int)
    assert isinstance(bits, int)
    assert isinstance(chunk, int)
    return Digit(terms_of(tv), low, bits, chunk)
