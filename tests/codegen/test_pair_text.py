"""Elements that are combined two at a time, as text."""

from __future__ import annotations

from tests.codegen.test_tail_text import kernel_of, text_of
from tests.schedule.segments import halves
from thunder_fuser.ir.build import call


def test_a_register_of_two_is_combined_with_each_vector_and_taken_apart_behind_all() -> None:
    x = halves(1000, 400)
    lines = [line.strip() for line in text_of(kernel_of(x, call("max", x, dims=(1,)))).splitlines()]
    of_two = "[](auto a, auto b) { return tf::maximum(a, b); }"
    empty = "tf::convert<tf::bf16>(tf::lowest<float>())"
    assert f"auto T1_part_pair = tf::alike<2>({empty});" in lines
    taken = lines.index(f"T1_part_pair = tf::in_pairs(T1_part_pair, v0[k], {of_two});")
    value = "tf::convert<float>(T1_part_pair.v[lane])"
    assert lines.index(f"T1_part = tf::maximum(T1_part, {value});") > taken


def test_the_ends_of_odd_rows_are_taken_one_by_one() -> None:
    x = halves(1000, 401)
    text = text_of(kernel_of(x, call("max", x, dims=(1,))))
    assert "tf::in_pairs(T1_part_pair, v0[k]" in text
    assert "if (has_edge) {" in text
    assert "T1_part = tf::maximum(T1_part, T0_0);" in text
