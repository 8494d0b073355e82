"""What scales a masked value scales the mask: printed IR, and the same bits."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import check, fusion, like
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.presegment import tidy
from thunder_fuser.presegment.scale_masks import scale_masks

FLOAT, HALF = DataType.Float, DataType.Half


def inputs(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [torch.randn(5, 33, dtype=dtype), torch.rand(5, 33) < 0.5]


def scaled(x: TensorView, mask: TensorView, scale: float, *, first: bool) -> TensorView:
    chosen, factor = call("cast", mask, dtype=x.dtype), sc.constant(scale)
    if first:
        return call("mul", chosen, call("mul", factor, x))
    return call("mul", call("mul", x, chosen), factor)


def program(dtype: torch.dtype, scale: float, *, first: bool) -> Fusion:
    x, mask = like(*inputs(dtype))
    return fusion([x, mask], scaled(x, mask, scale, first=first))


@pytest.mark.parametrize("first", [True, False])
def test_a_mask_is_scaled(first: bool) -> None:
    found = scale_masks(program(torch.float32, 1.25, first=first))
    assert str(found) == dedent("""\
        fusion(T0: f32[i5, i33], T1: bool[i5, i33]) {
          T2: f32[i5, i33] = cast(T1, dtype=f32)
          T3: f32[i5, i33] = mul(T2, 1.25)
          T4: f32[i5, i33] = mul(T0, T3)
          return T4
        }""")
    assert str(tidy(found)) == str(found)


@pytest.mark.parametrize(
    "fusion",
    [
        program(torch.float16, 1.25, first=False),  # rounds in between
        program(torch.float32, -1.25, first=False),  # changes the sign of a zero
        program(torch.float32, float("inf"), first=False),
    ],
)
def test_other_products_stay(fusion: Fusion) -> None:
    assert scale_masks(fusion) is fusion


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("first", [True, False])
def test_scaled_masks_make_the_same_bits(first: bool) -> None:
    x, mask = inputs()
    x[0, :4] = torch.tensor([float("inf"), -float("inf"), float("nan"), -0.0])
    check(program(torch.float32, 1 / 0.9, first=first), x, mask)


@pytest.mark.usefixtures("device")
def test_strict_scales_before_it_masks_as_the_trace_does() -> None:
    x, mask = torch.full((5, 33), 3e38), torch.rand(5, 33) < 0.5
    found = program(torch.float32, 1.25, first=True)  # infinity, or infinity times 0
    check(found, x, mask, options=Options(strict=True))


def test_a_mask_of_fewer_digits_keeps_its_scale() -> None:
    x, flags = like(torch.randn(64), torch.rand(64) > 0.5)
    mask = call("cast", flags, dtype=DataType.BFloat16)
    whole = fusion([x, flags], call("mul", call("mul", x, mask), sc.constant(1.1111)))
    assert scale_masks(whole) is whole
