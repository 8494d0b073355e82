"""Liger's ops stand in for the workloads' own: the same inputs, the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from benchmarks import kernels, liger, rope
from benchmarks.cases import Workload

CPU = torch.device("cpu")


def half_turned(x: torch.Tensor) -> torch.Tensor:
    half = x.size(-1) // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def rms(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps) * weight


# The functions of liger_kernel.transformers.functional, by their signatures in release 0.8.5.
OPS: dict[str, Callable[..., Any]] = {
    "rms_norm": lambda X, W, eps, offset=0.0, casting_mode="llama", in_place=True: rms(X, W, eps),
    "fused_add_rms_norm": lambda X, R, W, eps, offset=0.0, casting_mode="llama", in_place=True: (
        rms(X + R, W, eps),
        X + R,
    ),
    "layer_norm": lambda X, W, B, eps: F.layer_norm(X, X.shape[-1:], W, B, eps),
    "softmax": lambda x: torch.softmax(x, -1),
    "swiglu": lambda a, b: F.silu(a) * b,
    "cross_entropy": F.cross_entropy,
    "rope": lambda q, k, cos, sin, position_ids=None, unsqueeze_dim=1, rotary_dim=None: tuple(
        x * cos.unsqueeze(1) + half_turned(x) * sin.unsqueeze(1) for x in (q, k)
    ),
}
WORKLOADS = [
    w for w in (*kernels.WORKLOADS, *rope.WORKLOADS) if w.case(CPU, w.quick[0]).liger is not None
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_a_stand_in_gives_what_the_workload_gives(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liger, "_op", OPS.__getitem__)
    case = workload.case(CPU, workload.quick[0])
    assert case.liger is not None
    wide = [t.detach().double() if t.is_floating_point() else t for t in case.inputs]
    torch.testing.assert_close(case.liger()(*wide), case.function(*wide))


def test_every_op_has_a_workload() -> None:
    assert {w.name for w in WORKLOADS} >= {"rmsnorm", "add_rmsnorm", "swiglu", "hf_llama3_8b"}
    assert len(WORKLOADS) == 6 + 5


def test_the_ops_are_there_under_these_names() -> None:
    functional = pytest.importorskip("liger_kernel.transformers.functional")
    assert all(hasattr(functional, f"liger_{name}") for name in OPS)
