"""Gradients of slices with strides are part of their regions, and their values are torch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder.core.prims as prims
import torch

from tests.executor.jitted import check, jit
from tests.executor.judging import judged
from thunder_fuser import fuser

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}
Program = Callable[[torch.Tensor], torch.Tensor]


def pairs(x: torch.Tensor) -> torch.Tensor:
    a, b = x[..., ::2], x[..., 1::2]
    return torch.stack((a * 2 - b * 3, a * 3 + b * 2), -1).flatten(-2)


def patches(x: torch.Tensor) -> torch.Tensor:
    return torch.cat([x[:, i::2, j::2] * (i + 2 * j + 1) for j in (0, 1) for i in (0, 1)], -1)


WHOLE: dict[str, tuple[Program, tuple[int, ...]]] = {
    "pairs": (pairs, (3, 5, 16)),
    "pairs of an odd number": (pairs, (3, 5, 10)),
    "patches": (patches, (2, 6, 4, 8)),
    "every third": (lambda x: x[:, ::3] * x[:, 1::3] + x[:, 2::3], (4, 24)),
    "one of four": (lambda x: x[:, :, ::2, ::2] * 2, (2, 3, 6, 8)),
}
PARTS: dict[str, tuple[Program, tuple[int, ...]]] = {
    "an odd extent": (lambda x: x[:, ::2] * 2, (3, 17)),
    "the others of it": (lambda x: x[:, 1::2] * 2, (3, 17)),
    "both": (lambda x: (x[:, ::2][:, :-1] * x[:, 1::2]).exp(), (3, 17)),
    "steps of three": (lambda x: x[:, 1::3] * 2, (3, 20)),
    "from the end": (lambda x: x[:, -7::3] * 2, (3, 20)),
    "from within, to within": (lambda x: x[:, 5:18:4] * 2, (3, 20)),
    "one element": (lambda x: x[:, 11::9] * 2, (3, 20)),
    "no element": (lambda x: torch.cat((x[:, 20::3] * 2, x), 1), (3, 20)),
    "no row": (lambda x: x[:, ::2] * 2, (0, 8)),
    "other rows": (lambda x: x[1::2, 3:, ::3] * 2, (5, 6, 7)),
    "a slice of a slice": (lambda x: x[:, ::2][:, 1::3] * 2, (3, 37)),
}


@pytest.mark.parametrize("name", WHOLE)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_slices_share_out_has_a_gradient_of_one_launch(
    name: str, dtype: torch.dtype, device: torch.device
) -> None:
    program, shape = WHOLE[name]
    x = torch.randn(shape, dtype=dtype)
    jfn = judged(program, [x], torch.randn_like(program(x)), device)
    backward = fuser.facts(jfn).backward
    assert backward is not None
    assert backward.kernels == 1


@pytest.mark.parametrize("name", PARTS)
def test_what_is_not_sliced_has_no_gradient(name: str) -> None:
    program, shape = PARTS[name]
    check(program, torch.randn(shape, requires_grad=True), **KERNELS)


@pytest.mark.parametrize("extent", [0, 1, 2, 5])
@pytest.mark.parametrize("widths", [(0, 0, 1), (3, 4, 2), (1, 0, 4), (6, 5, 0)])
def test_widths_and_values_are_thunders(extent: int, widths: tuple[int, int, int]) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return prims.pad(x * 1.0, 2.5, ((0, 1, 1), widths)) * 1.0

    x = torch.randn(3, extent)
    (lo, hi, dilation), total = widths, sum(widths[:2]) + extent
    total += max(extent - 1, 0) * widths[2]
    expected = torch.full((6, total), 2.5)
    expected[0:5:2, lo : total - hi : dilation + 1] = x
    torch.testing.assert_close(jit(program, **KERNELS)(x), expected)


def test_a_zero_keeps_no_sign_where_gradients_are_added() -> None:
    """As torch's, which adds a zero to each of the elements that it sliced."""
    x = torch.ones(2, 8, requires_grad=True)
    out = jit(lambda x: pairs(x), **KERNELS)(x)
    (found,) = torch.autograd.grad(out, x, torch.full_like(out, -0.0))
    y = torch.ones(2, 8, requires_grad=True)
    again = pairs(y)
    (expected,) = torch.autograd.grad(again, y, torch.full_like(again, -0.0))
    assert torch.equal(found.signbit(), expected.signbit())
