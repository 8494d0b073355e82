"""The text of an index."""

from __future__ import annotations

from tests.programs import chain
from tests.schedule.segments import integers, segment_of
from thunder_fuser.codegen.index_text import index_lines
from thunder_fuser.kernel.integers import index_of
from thunder_fuser.kernel.names import name_values


def test_it_is_a_function_of_the_place() -> None:
    source = integers(60)
    segment = segment_of([source], chain(source, "neg"))
    (value,) = (store.value for store in segment.stores)
    assert index_lines(index_of(segment, name_values(segment), value)) == [
        "const auto index = [&](const int place) {",
        "  const tf::i64 T0_0 = T0[(place)];",
        "  const tf::i64 T1_0 = -T0_0;",
        "  return T1_0;",
        "};",
    ]
