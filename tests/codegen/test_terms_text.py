"""Terms that a reduction takes several of at once, and others one by one."""

from __future__ import annotations

from thunder_fuser.codegen.terms_text import at_once
from thunder_fuser.dtypes import DataType
from thunder_fuser.kernel.statements import Accumulate, Hold, Variable
from thunder_fuser.ops import op
from thunder_fuser.ops.reductions import EXPONENTIALS

VALUE = Variable("T0_0", DataType.Float)


def part(name: str) -> Variable:
    return Variable(name, DataType.Float)


def test_terms_of_a_vector_are_held_and_added_behind_its_lanes() -> None:
    largest = Accumulate(part("T1_part"), op("max"), VALUE)
    found = at_once([largest, Accumulate(part("T2_part"), EXPONENTIALS, VALUE)], "[8]", "[lane]")
    assert found.declared == ("float T2_terms[8];",)
    assert found.statements == (largest, Hold(part("T2_terms[lane]"), VALUE))
    assert found.added == ("T2_part = tf::below(T2_part, T2_terms);",)


def test_each_lane_of_a_column_has_an_array_of_its_own() -> None:
    found = at_once([Accumulate(part("T2_part[lane]"), EXPONENTIALS, VALUE)], "[4][16]", "[k]")
    assert found.declared == ("float T2_terms[4][16];",)
    assert found.statements == (Hold(part("T2_terms[lane][k]"), VALUE),)
    assert found.added == ("T2_part[lane] = tf::below(T2_part[lane], T2_terms[lane]);",)
