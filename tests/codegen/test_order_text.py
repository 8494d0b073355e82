"""The text of order kernels."""

from __future__ import annotations

from tests.programs import H200, ordered
from tests.schedule.segments import integers, segment_of
from thunder_fuser.codegen.order_text import order_lines
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.ordering import lower_order
from thunder_fuser.schedule import ordering


def text_of(index: TensorView, *stores: TensorView) -> str:
    kernel = lower_order(ordering.schedule(segment_of([index], *stores), H200), strict=False)
    *_, line = order_lines(kernel)
    return line.replace("\x01", "").replace("\x02", "")


def test_it_is_a_call_with_the_sizes_and_the_results() -> None:
    index = integers(600)
    text = text_of(index, *ordered(index, 40000))
    assert text == "tf::put_in_order<512, 512>(index, 600, 40000, T1, T2, T3);"


def test_what_nobody_wants_is_null() -> None:
    index = integers(600)
    order, _, ends = ordered(index, 9)
    assert text_of(index, order).endswith("(index, 600, 9, T1, nullptr, nullptr);")
    assert text_of(index, ends).endswith("(index, 600, 9, nullptr, nullptr, T3);")
