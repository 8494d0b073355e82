"""Sums of images that blocks walk are stored in their order before they are turned."""

from __future__ import annotations

from tests.programs import chain, fusion, permute, reshape
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.store_turned import store_turned


def summed(walked: bool) -> tuple[TensorView, TensorView]:
    x = tensor(DataType.BFloat16, 4104, 40, 513)
    marks = {"walked": 4104 * 40} if walked else {}
    return x, call("sum", call("cast", x, dtype=DataType.Float), dims=(1,), **marks)


def turned(walked: bool, *order: int) -> Fusion:
    x, sums = summed(walked)
    rounded = call("cast", reshape(sums, 8, 513, 513), dtype=DataType.BFloat16)
    return fusion([x], permute(rounded, *order))


def test_a_stop_lies_before_the_permutation() -> None:
    text = str(store_turned(turned(True, 1, 2, 0)))
    assert "T5: bf16[i8, i513, i513] = segment_set(T4)" in text


def test_sums_that_stay_in_order_or_are_not_walked_have_none() -> None:
    for program in (turned(True, 0, 1, 2), turned(False, 1, 2, 0)):
        assert store_turned(program) is program


def test_what_is_computed_of_them_may_be_turned_in_a_kernel_of_its_own() -> None:
    x, sums = summed(True)
    program = fusion([x], permute(chain(reshape(sums, 8, 513, 513), "exp"), 1, 2, 0))
    assert store_turned(program) is program
