"""Floats of 8 bits are cast to and from inside of our kernels, and computed with nowhere."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.devices import ORDERS
from tests.executor.jitted import check, jit, region, regions
from tests.executor.test_claims import reasons

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
KERNELS = {"fuser_evaluator": False}


def quantised(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """By rows; what is converted is returned, too."""
    scale = x.float().abs().amax(-1, keepdim=True).clamp(min=1e-6) / 448
    scaled = x.float() / scale
    return scaled.to(E4M3), scale, scaled


def fake_quantised(x: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    return (x / scale).to(E4M3).float() * scale


@pytest.mark.parametrize("order", ORDERS)
def test_rows_are_scaled_and_quantised_in_one_kernel(order: str, device: torch.device) -> None:
    x = 3 * torch.randn(37, 129, dtype=torch.bfloat16)
    jfn = jit(quantised, fuser_thread_order=order, **KERNELS)
    found, scale, scaled = (t.cpu() for t in jfn(x.to(device)))
    torch.testing.assert_close(scale, quantised(x)[1])
    assert torch.equal(found.view(torch.uint8), scaled.to(E4M3).view(torch.uint8))
    assert regions(jfn).forward[0].count("convert_element_type") == 2
    used = region(jfn).last_used
    assert used is not None
    (plan,) = used.leaf.program.plans
    assert len(plan.kernels) == 1


@pytest.mark.usefixtures("device")
def test_dequantising_has_a_gradient_for_the_scale() -> None:
    q, scale = torch.randn(5, 37).to(E4M3), torch.rand(5, 1, requires_grad=True)
    jfn = check(lambda q, scale: q.float() * scale, q, scale, **KERNELS)
    assert regions(jfn).forward == (("convert_element_type", "broadcast_in_dim", "mul"),)
    assert "sum" in regions(jfn).backward[0]


@pytest.mark.usefixtures("device")
def test_a_conversion_to_8_bits_and_back_is_kept() -> None:
    x, scale = torch.randn(5, 37), torch.rand(5, 1) + 0.5
    jfn = check(fake_quantised, x.requires_grad_(), scale.requires_grad_(), **KERNELS)
    assert regions(jfn).forward[0].count("convert_element_type") == 2


@pytest.mark.parametrize("dtype", [E4M3, E5M2], ids=str)
def test_views_and_writes_move_8_bits(dtype: torch.dtype, device: torch.device) -> None:
    def program(q: torch.Tensor, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        moved = q.t().contiguous(), q[1:3, ::2].unsqueeze(0).expand(2, -1, -1).float() + 1
        q.copy_(x * 2)
        return moved

    q, x = torch.randn(5, 37).to(dtype), torch.randn(5, 37)
    ours, eager = q.to(device, copy=True), q.clone()
    (turned, sliced), wanted = jit(program, **KERNELS)(ours, x.to(device)), program(eager, x)
    for found, own in ((turned, wanted[0]), (ours, eager)):
        assert torch.equal(found.cpu().view(torch.uint8), own.view(torch.uint8))
    assert torch.equal(sliced.cpu(), wanted[1])


@pytest.mark.parametrize(
    ("op", "make"),
    [
        ("full", lambda q: torch.full((2, 2), 1.0, dtype=E4M3, device=q.device)),
        ("flip", lambda q: q.flip(0)),
        ("pad", lambda q: torch.nn.functional.pad(q, (1, 1))),
        ("getitem", lambda q: q[torch.tensor([1, 0], device=q.device)]),
    ],
)
def test_what_is_more_than_to_move_them_stays_with_torch(
    op: str, make: Callable[[torch.Tensor], torch.Tensor], device: torch.device
) -> None:
    found = reasons(lambda q: make(q).float() + 1, torch.randn(5, 4).to(E4M3).to(device))
    assert "f8e4m3" in (found[op] or ""), found
    assert found["add"] is None
