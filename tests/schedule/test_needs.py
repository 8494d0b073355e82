"""What results need: the reductions that they read, and indices that must be known before those."""

from __future__ import annotations

import pytest

from tests.programs import total
from tests.schedule.segments import floats, integers, segment_of
from thunder_fuser.analysis.digits import atom
from thunder_fuser.ir.build import call
from thunder_fuser.ir.domain import axis
from thunder_fuser.schedule.needs import check_places, needs_of, reductions_read
from thunder_fuser.schedule.rejected import Rejected


def test_a_result_needs_memory_and_reductions_but_not_what_those_need() -> None:
    x, scales = floats(4, 64), floats(4)
    reduced = total(x, 1)
    scaled = call("mul", reduced, scales)
    row = (atom(axis(4)),)
    segment = segment_of([x, scales], scaled)
    needs = needs_of(segment, [reduced], [(scaled, row)])
    assert needs.leaves.keys() == {(reduced, row), (scales, row)}
    assert reductions_read([(scaled, row)], needs, {reduced: row}) == [(reduced, row)]


def test_no_term_of_what_is_long_is_needed_though_it_is_not_asked_for() -> None:
    x = floats(4, 64)
    reduced = total(x, 1)
    row = (atom(axis(4)),)
    needs = needs_of(segment_of([x], reduced), [], [(reduced, row)])
    assert needs.leaves.keys() == {(reduced, row)}


def test_a_result_that_is_a_reduction_reads_it() -> None:
    x = floats(4, 64)
    reduced, row, other = total(x, 1), (atom(axis(4)),), (atom(axis(4)),)
    segment = segment_of([x], reduced)
    needs = needs_of(segment, [reduced], [(reduced, other)])
    assert (reduced, other) in reductions_read([(reduced, other)], needs, {reduced: row})


def test_an_index_in_memory_is_known_before_the_reductions() -> None:
    table, index, x = floats(9), integers(4), floats(4, 64)
    reduced = total(x, 1)
    gathered = call("index_select", table, index, dim=0)
    made = call("add", gathered, reduced)
    segment = segment_of([table, index, x], made)
    needs = needs_of(segment, [reduced], [(made, (atom(axis(4)),))])
    assert list(needs.places)
    check_places(segment, [reduced], needs)


def test_an_index_that_a_reduction_makes_comes_too_late() -> None:
    table, x = floats(9), integers(4, 64)
    index = total(x, 1)
    gathered = call("index_select", table, index, dim=0)
    segment = segment_of([table, x], gathered)
    needs = needs_of(segment, [index], [(gathered, (atom(axis(4)),))])
    with pytest.raises(Rejected, match="an index is read from what a reduction makes"):
        check_places(segment, [index], needs)
