"""The text of stages of an order."""

from __future__ import annotations

from tests.kernel.test_digit_stages import lowered
from thunder_fuser.codegen.digit_text import digit_lines


def test_it_is_a_call_whose_sizes_are_set_apart() -> None:
    *_, line = digit_lines(lowered("first"))
    call = "tf::put_digits<0, 9, 1024, 1024, 1024, 128>"
    numbers = "nullptr, \x015000\x02, T1, \x01128\x02"
    assert line == f"{call}(index, {numbers}, T2, T3);"
