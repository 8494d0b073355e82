"""The reciprocal of 1 and an exponential is the logistic function."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.programs import chain, run
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment import tidy
from thunder_fuser.presegment.fold_logistics import fold_logistics

Build = Callable[[TensorView], TensorView]


def one_over(x: TensorView, number: float = 1.0, op: str = "exp") -> TensorView:
    return call("reciprocal", call("add", sc.constant(number), chain(x, op)))


def folded(build: Build, dtype: DataType = DataType.Float) -> str:
    x = tensor(dtype, 4)
    return str(fold_logistics(Fusion((x,), (build(x),))))


def test_a_logistic_function_written_out_is_one() -> None:
    text = folded(lambda x: one_over(chain(x, "neg")))
    assert text == "fusion(T0: f32[i4]) {\n  T1: f32[i4] = sigmoid(T0)\n  return T1\n}"


def test_that_of_the_other_sign_is_one_of_what_is_negated() -> None:
    assert "T1: f32[i4] = neg(T0)\n  T2: f32[i4] = sigmoid(T1)" in folded(one_over)


def test_one_may_come_second_and_be_divided() -> None:
    def build(x: TensorView) -> TensorView:
        return call("div", sc.constant(1.0), call("add", chain(x, "neg", "exp"), sc.constant(1.0)))

    x = tensor(DataType.Float, 4)
    assert "T1: f32[i4] = sigmoid(T0)" in str(tidy(Fusion((x,), (build(x),))))


@pytest.mark.parametrize(
    ("build", "dtype"),
    [
        (lambda x: one_over(x, 2.0), DataType.Float),
        (lambda x: one_over(x, op="tanh"), DataType.Float),
        (one_over, DataType.Double),
        (one_over, DataType.BFloat16),  # each of whose values a trace rounds
    ],
    ids=["another number", "another function", "f64", "bf16"],
)
def test_any_other_reciprocal_stays(build: Build, dtype: DataType) -> None:
    assert "reciprocal" in folded(build, dtype)


def test_values_are_those_of_the_logistic_function() -> None:
    """Also where the exponential is infinite, and the result subnormal."""
    inf = float("inf")
    numbers = torch.tensor([-inf, inf, float("nan"), -0.0, -100.0, -88.5, -87.5, 88.5, 100.0])
    inputs = torch.cat([numbers, torch.linspace(-90, 90, 1001)])
    x = tensor(DataType.Float, len(inputs))
    (found,) = run(Fusion((x,), (one_over(chain(x, "neg")),)), inputs)
    torch.testing.assert_close(found, torch.sigmoid(inputs), rtol=2e-6, atol=1e-44, equal_nan=True)
