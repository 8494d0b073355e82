"""The text of an index."""

from __future__ import annotations

import pytest

from tests.programs import chain
from tests.schedule.segments import floats, integers, segment_of
from thunder_fuser.codegen.index_text import index_lines
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.integers import index_of
from thunder_fuser.kernel.names import name_values


def test_it_is_a_function_of_the_place() -> None:
    source = integers(60)
    segment = segment_of([source], chain(source, "neg"))
    (value,) = (store.value for store in segment.stores)
    assert index_lines(index_of(segment, name_values(segment), value, strict=False)) == [
        "const auto index = [&](const int place) {",
        "  const tf::i64 T0_0 = T0[(place)];",
        "  const tf::i64 T1_0 = tf::wrapped_sub(0, T0_0);",
        "  return T1_0;",
        "};",
    ]


@pytest.mark.parametrize("strict", [True, False])
def test_a_strict_one_is_rounded_as_the_trace_says(strict: bool) -> None:
    """A product that the compiler merged with a sum could be another index."""
    x = floats(60)
    scaled = call("add", call("mul", x, sc.constant(3.0)), sc.constant(0.5))
    index = call("cast", scaled, dtype=DataType.Int)
    segment = segment_of([x], index)
    found = index_lines(index_of(segment, name_values(segment), index, strict))
    assert any("tf::mul_rn" in line for line in found) is strict
