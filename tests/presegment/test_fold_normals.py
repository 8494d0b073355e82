"""Half of 1 and an error function is the distribution function of a normal."""

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
from thunder_fuser.presegment.fold_normals import fold_normals

Build = Callable[[TensorView], TensorView]
NORMAL = "fusion(T0: f32[i4]) {\n  T1: f32[i4] = ndtr(T0)\n  return T1\n}"


def erf(x: TensorView, root: float = 2.0**0.5) -> TensorView:
    return chain(call("div", x, sc.constant(root)), "erf")


def half_and_half(x: TensorView, half: float = 0.5) -> TensorView:
    return call("add", sc.constant(half), call("mul", sc.constant(half), erf(x)))


def folded(build: Build, dtype: DataType = DataType.Float) -> str:
    x = tensor(dtype, 4)
    return str(fold_normals(Fusion((x,), (build(x),))))


@pytest.mark.parametrize(
    "build",
    [
        half_and_half,
        lambda x: call("mul", call("add", erf(x), sc.constant(1.0)), sc.constant(0.5)),
        lambda x: call(
            "mul",
            sc.constant(0.5),
            call("add", sc.constant(1.0), chain(call("mul", x, sc.constant(0.5**0.5)), "erf")),
        ),
    ],
    ids=["Thunder's gelu", "halved", "scaled by a product"],
)
def test_a_distribution_function_written_out_is_one(build: Build) -> None:
    assert folded(build) == NORMAL


@pytest.mark.parametrize(
    ("build", "dtype"),
    [
        (erf, DataType.Float),
        (lambda x: half_and_half(x, 0.25), DataType.Float),
        (lambda x: call("add", sc.constant(0.5), call("mul", sc.constant(0.5), erf(x, 1.4))),
         DataType.Float),
        (half_and_half, DataType.Double),
        (half_and_half, DataType.BFloat16),  # each of whose values a trace rounds
    ],
    ids=["no sum", "another share", "another scale", "f64", "bf16"],
)  # fmt: skip
def test_any_other_error_function_stays(build: Build, dtype: DataType) -> None:
    assert "erf" in folded(build, dtype)


def test_its_values_are_those_of_the_error_function() -> None:
    x = torch.cat((torch.linspace(-12, 12, 4001), torch.tensor([torch.inf, -torch.inf, torch.nan])))
    given = tensor(DataType.Float, x.numel())
    (found,) = run(fold_normals(Fusion((given,), (half_and_half(given),))), x)
    wanted = torch.special.ndtr(x.double())
    assert torch.equal(found.isnan(), x.isnan())
    errors = (found.double() - wanted).nan_to_num().abs()
    assert errors.max() < 2.0**-23
    near = (x > -5) & (x < torch.inf)
    assert (errors[near] / wanted[near]).max() < 2.0**-14
