"""Quotients by counts, taken before elements are chosen."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import STRICT, check, expand, fusion, like, total, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.divide_first import divide_first


def cast(x: TensorView, dtype: DataType) -> TensorView:
    return call("cast", x, dtype=dtype)


def shared(x: TensorView, given: TensorView, flipped: bool = False) -> TensorView:
    """The gradient of a largest element along rows, which equal ones share."""
    top = expand(unsqueeze(call("max", x, dims=(1,)), 1), *x.shape)
    chosen = call("eq", x, top)
    count = expand(unsqueeze(total(cast(chosen, DataType.Int), 1), 1), *x.shape)
    given, truths = expand(unsqueeze(given, 1), *x.shape), cast(chosen, x.dtype)
    product = call("mul", truths, given) if flipped else call("mul", given, truths)
    return call("div", product, cast(count, x.dtype))


@pytest.mark.parametrize("flipped", [False, True])
def test_the_quotient_by_a_count_is_taken_first(flipped: bool) -> None:
    a, b = like(torch.randn(3, 8), torch.randn(3))
    (result,) = divide_first(fusion([a, b], shared(a, b, flipped))).outputs
    assert result.definition is not None
    divided, truths = result.definition.tensors
    assert result.definition.op.name == "mul"
    assert divided.definition is not None
    assert truths.definition is not None
    assert (divided.definition.op.name, truths.definition.op.name) == ("div", "cast")


@pytest.mark.parametrize("what", ["no truths", "no count"])
def test_other_quotients_stay(what: str) -> None:
    a, b = like(torch.randn(3, 8), torch.randn(3, 8))
    truths, count = call("gt", a, b), cast(b, DataType.Int)
    factor = b if what == "no truths" else cast(truths, DataType.Float)
    divisor = b if what == "no count" else cast(count, DataType.Float)
    program: Fusion = fusion([a, b], call("div", call("mul", a, factor), divisor))
    assert divide_first(program) is program


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("columns", [5, 48, 1003])
def test_bits_are_the_trace_s(columns: int, dtype: torch.dtype) -> None:
    """Also of infinite and missing numbers, of rows that have none that equals the largest."""
    x = torch.randint(-3, 3, (9, columns)).to(dtype)
    given = torch.tensor([1.7, 0, -0.0, torch.inf, torch.nan, -2, 3, 1e-38, 5]).to(dtype)
    x[6, 0], x[7, 1], x[8] = torch.nan, torch.inf, -torch.inf
    a, b = like(x, given)
    check(fusion([a, b], shared(a, b)), x, given, options=STRICT, orders=ORDERS)
