"""Writes of kernels, which torch's autograd hears of, and the targets that torch refuses."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.frontend.fusions import defined
from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.program import Program


def doubling() -> FusionDefinition:
    """Writes twice its second argument into its first."""

    def define(fd: FusionDefinition) -> None:
        x, y = (fd.define_tensor([-1], contiguity=True) for _ in range(2))
        fd.add_output(fd.ops.mul(y, 2.0), alias_input=x)

    return defined(define, FusionCache(Program))


def test_a_gradient_of_a_value_that_was_overwritten_is_refused(device: torch.device) -> None:
    leaf, fd = torch.randn(7, requires_grad=True), doubling()
    x = (leaf * 1.0).to(device)
    total, other = (x * x).sum(), torch.randn(7).to(device)
    with torch.no_grad():
        fd.execute([x, other])
    torch.testing.assert_close(x.detach(), 2 * other)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_versions_move_of_what_is_written_alone(device: torch.device) -> None:
    x, y = (torch.randn(7).to(device) for _ in range(2))
    before = x._version, y._version
    doubling().execute([x, y])
    assert x._version > before[0]
    assert y._version == before[1]


def leaf() -> torch.Tensor:
    return torch.randn(7, requires_grad=True)


@torch.inference_mode()
def inference() -> torch.Tensor:
    return torch.randn(7)


@pytest.mark.parametrize(
    ("make", "allowed", "message"),
    [
        (leaf, torch.no_grad, "a leaf Variable that requires grad"),
        (inference, torch.inference_mode, "argument 0 is an inference tensor"),
    ],
)
def test_what_torch_does_not_write_is_left_alone(
    make: Callable[[], torch.Tensor], allowed: Callable[[], torch.no_grad], message: str
) -> None:
    fd, x, y = doubling(), make(), torch.randn(7)
    before = x.detach().clone()
    with pytest.raises(RuntimeError, match=message):
        fd.execute([x, y])
    assert torch.equal(x, before)
    fd.execute([y, x])
    with allowed():
        fd.execute([x, before])
    torch.testing.assert_close(x.detach(), 2 * before)
