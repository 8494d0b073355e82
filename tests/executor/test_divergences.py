"""The divergence of a log_softmax from a target: one kernel each way, two numbers per row kept."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import jit, saved
from tests.executor.judging import runs
from thunder_fuser import fuser

KERNELS = {"fuser_evaluator": False}


def divergence(x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
    is_double = x.dtype == torch.float64
    wide, logits = (t, x) if is_double else (t.float(), x.float())
    return (wide * (wide.log() - F.log_softmax(logits, -1))).sum() / x.shape[0]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(301, 67), (19, 17, 263)])
def test_it_is_one_kernel_each_way_with_errors_like_eagers(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    x, t = torch.randn(shape, dtype=dtype), torch.rand(shape).add(0.1).to(dtype)
    there = t.to(device)
    jfn = jit(divergence, **KERNELS)
    cotangent = torch.randn(())
    exact = runs(lambda x: divergence(x, t.double()), [x.double()], cotangent)
    ours = runs(lambda x: jfn(x, there), [x], cotangent, device)
    eager = runs(lambda x: divergence(x, t), [x], cotangent)
    for value, found, theirs, eps in zip(exact, ours, eager, (torch.float32, dtype), strict=True):
        rounding = torch.finfo(eps).eps * value.abs().max()
        assert (found - value).abs().max() <= 2 * (theirs - value).abs().max() + 8 * rounding
    facts = fuser.facts(jfn)
    assert facts.backward is not None
    assert (facts.forward.kernels, facts.backward.kernels) == (1, 1)
    kept = saved(jfn)
    assert {kept.pop("x"), kept.pop("t")} == {x.numel() * dtype.itemsize}
    assert list(kept.values()) == [x.numel() // shape[-1] * 4] * 2
