"""What the digit template takes, and what its stages print."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import H200, chain, ints, total
from tests.schedule.segments import integers, segment_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import Attr, TensorView
from thunder_fuser.schedule import digit_stages
from thunder_fuser.schedule.digit_stages import EndsSchedule
from thunder_fuser.schedule.parameters import DigitParameters
from thunder_fuser.segment.segment import Segment

FIRST: dict[str, Attr] = {"low": 0, "bits": 9, "chunk": 1024}
SECOND: dict[str, Attr] = {**FIRST, "low": 9}
GROUPS = ints([200000])

index = integers(5000)
counts = call("digit_counts", index, count=GROUPS, **FIRST)
order = call("digit_order", index, counts, **FIRST)
keys = call("digit_keys", index, counts, **FIRST)
counted = call("digit_counts", keys, count=GROUPS, **SECOND)
reordered = call("digit_reorder", keys, counted, order, **SECOND)
again = call("digit_keys", keys, counted, **SECOND)
ends = call("group_ends", again, count=GROUPS)


def stored(tv: TensorView) -> Layout:
    return Layout(tv.shape, (1,), 16)


def after(leaves: list[TensorView], *values: TensorView) -> Segment:
    """A segment behind launches that made its leaves."""
    segment = segment_of([index], *values)
    layouts = {**segment.layouts, **{tv: stored(tv) for tv in leaves}}
    return Segment(segment.stores, segment.leaves | set(leaves), layouts)


STAGES = {
    "counts": (
        after([], counts),
        "counts of the digits of T0 of 5000, bits 0 to 8, 1024 places a block of 1024",
    ),
    "first": (
        after([counts], order, keys),
        """\
        order by the digits of T0 of 5000, bits 0 to 8, 1024 places a block of 1024
          T2 = digit_order, T3 = digit_keys""",
    ),
    "second": (
        after([keys, order, counted], reordered, again),
        """\
        order by the digits of T0 of 5000, bits 9 to 17, 1024 places a block of 1024
          T3 = digit_reorder, T4 = digit_keys""",
    ),
    "ends": (after([again], ends), "ends of 200000 groups in T0 of 5000, 1024 groups a block"),
}


@pytest.mark.parametrize("case", STAGES)
def test_it_prints_its_stage(case: str) -> None:
    segment, text = STAGES[case]
    assert str(digit_stages.schedule(segment, H200)) == dedent(text)


def test_blocks_that_find_ends_have_as_many_threads_as_they_are_told_to() -> None:
    planned = digit_stages.schedule(STAGES["ends"][0], H200, DigitParameters(512))
    assert planned.threads == 512
    assert isinstance(planned, EndsSchedule)
    assert planned.groups == 4 * 512


others: dict[str, Attr] = {**FIRST, "chunk": 2048}
wide: dict[str, Attr] = {**FIRST, "bits": 11}
odd: dict[str, Attr] = {**FIRST, "chunk": 1000}
given = integers(128 << 9)
place = integers(5000)
summed = total(integers(5000, 40), 1)


@pytest.mark.parametrize(
    ("segment", "reason"),
    [
        (segment_of([index], chain(index, "neg")), "not a stage of the order of an index"),
        (after([], counts, chain(index, "neg")), "or others beside it"),
        (after([counts, keys], order, counted), "stages by several digits"),
        (after([], call("digit_counts", index, count=GROUPS, **odd)), "no block has bits 0 to 8"),
        (after([], call("digit_counts", index, count=GROUPS, **wide)), "no block has bits 0 to 10"),
        (after([], counts, keys), "several orders by a digit"),
        (after([counts], keys, call("digit_keys", index, counts, **FIRST)), "several orders"),
        (after([given], call("digit_order", index, given, **FIRST)), "counts of other digits"),
        (after([counts], call("digit_order", index, counts, **others)), "counts of other digits"),
        (after([counts], call("digit_order", place, counts, **FIRST)), "counts of other digits"),
        (
            after([keys, counted], call("digit_reorder", keys, counted, place, **SECOND)),
            "another order than one by the digits before",
        ),
        (after([], order), "what a stage before made is not in memory"),
        (after([keys, counted], reordered), "what a stage before made is not in memory"),
        (after([], ends), "what a stage before made is not in memory"),
        (after([], call("group_ends", place, count=GROUPS)), "no stage has put in order"),
        (after([], call("digit_counts", summed, count=GROUPS, **FIRST)), "in memory"),
        (segment_of([index, place], writes=[(order, place)]), "a buffer of its own"),
    ],
)
def test_what_it_does_not_hold_has_a_reason(segment: Segment, reason: str) -> None:
    assert reason in str(digit_stages.reject(segment, H200))
