"""Liger's ops stand in for the workloads' own: the same inputs, the same results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from benchmarks import kernels, liger, rope
from benchmarks.cases import Workload
from benchmarks.executors import EXECUTORS, Absent

CPU = torch.device("cpu")


def half_turned(x: torch.Tensor) -> torch.Tensor:
    half = x.size(-1) // 2
    return torch.cat((-x[..., half:], x[..., :half]), -1)


def turn_in_place(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    position_ids: None = None,
    unsqueeze_dim: int = 1,
    rotary_dim: int | None = None,
) -> tuple[torch.Tensor, ...]:
    """By the left half of cos and sin, in the storage of q and k where their heads lie side by
    side."""
    left = [t[..., : t.size(-1) // 2].repeat(1, 1, 2).unsqueeze(1) for t in (cos, sin)]
    found = []
    for x in (q, k):
        held = x.transpose(1, 2).contiguous().transpose(1, 2)
        held.copy_(held * left[0] + half_turned(held) * left[1])
        found.append(held)
    return tuple(found)


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
    "rope": turn_in_place,
}
WORKLOADS = [
    w
    for w in (*kernels.WORKLOADS, *rope.WORKLOADS)
    if not isinstance(w.case(CPU, w.quick[0]).liger, str)
]


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_a_stand_in_gives_what_the_workload_gives(
    workload: Workload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liger, "_op", OPS.__getitem__)
    case = workload.case(CPU, workload.quick[0])
    assert not isinstance(case.liger, str)
    wide = [t.detach().double() if t.is_floating_point() else t for t in case.inputs]
    expected = case.function(*(t.clone() for t in wide))
    torch.testing.assert_close(case.liger()(*wide), expected)
    if workload in rope.WORKLOADS:
        is_cut = workload.name == "hf_phi3_mini"
        assert torch.equal(wide[0], case.inputs[0].detach().double()) == is_cut


def test_every_op_has_a_workload() -> None:
    assert {w.name for w in WORKLOADS} >= {"rmsnorm", "add_rmsnorm", "swiglu", "hf_llama3_8b"}
    assert len(WORKLOADS) == 6 + 5


def test_the_ops_are_there_under_these_names() -> None:
    functional = pytest.importorskip("liger_kernel.transformers.functional")
    assert all(hasattr(functional, f"liger_{name}") for name in OPS)


@pytest.mark.parametrize("name", ["rope_llama3_8b", "litgpt_phi35_mini"])
def test_another_layout_has_a_skipped_row_with_the_reason(name: str) -> None:
    workload = next(w for w in (*kernels.WORKLOADS, *rope.WORKLOADS) if w.name == name)
    loaded = next(e for e in EXECUTORS if e.name == "liger").load(torch.device("cuda"))
    with pytest.raises(Absent, match="Hugging Face's models hold them, not LitGPT's"):
        loaded(workload.case(CPU, workload.quick[0]), {})
