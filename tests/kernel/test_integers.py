"""Elements of indices: what is read and computed at a place."""

from __future__ import annotations

from textwrap import dedent

from tests.programs import chain
from tests.schedule.segments import integers, segment_of
from thunder_fuser.analysis.digits import atom
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.domain import axis
from thunder_fuser.kernel.integers import index_of, integers_at
from thunder_fuser.kernel.names import name_values


def test_an_index_is_computed_of_what_is_in_memory() -> None:
    source = integers(60)
    index = chain(source, "neg")
    segment = segment_of([source], index, lies={source: Layout((60,), (100,), 8)})
    found = index_of(segment, name_values(segment), index, strict=False)
    assert dedent(str(found)) == dedent("""\
        index of place
          T0_0: i64 = T0[100*place]
          T1_0: i64 = neg(T0_0)""")
    assert found.reach == 5900


def test_elements_at_several_places_are_read_one_after_another() -> None:
    ends, row = integers(60), axis(60)
    segment = segment_of([ends], chain(ends, "neg"))
    before, values = integers_at(segment, name_values(segment), ends, [atom(row)] * 2, False)
    assert len(before) == 1  # the same element is read once
    assert values[0] == values[1]
