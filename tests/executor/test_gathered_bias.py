"""A bias that each image's scores share, gathered from a table: Swin's and T5's."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

import pytest
import torch
import torch.nn.functional as F

from tests.executor.judging import judged
from thunder_fuser import explain
from thunder_fuser.executor.explain import regions_of

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]
BF16 = torch.bfloat16


def swin(x: torch.Tensor, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    n = x.shape[-1]
    return torch.softmax(x + table[index.view(-1)].view(n, n, -1).permute(2, 0, 1), -1)


def t5(x: torch.Tensor, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return torch.softmax(x + F.embedding(index, table).permute(2, 0, 1), -1)


@pytest.mark.usefixtures("few_multiprocessors")
@pytest.mark.parametrize(("scores", "shape"), [(swin, (19, 3, 17, 17)), (t5, (40, 2, 64, 64))])
def test_it_is_gathered_once_and_its_gradient_is_ours(
    scores: Callable[..., torch.Tensor],
    shape: tuple[int, ...],
    device: torch.device,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = import_module("thunder_fuser.presegment.gather_once")  # not the function it exports
    monkeypatch.setattr(module, "MIN_ELEMENTS", 1)
    x, table = torch.randn(shape).to(BF16), torch.randn(25, shape[1]).to(BF16)
    index = torch.randint(25, shape[2:])
    jfn = judged(scores, (x, table, index), torch.randn(shape).to(BF16), device)
    forward = regions_of(jfn)[0].last_used
    assert forward is not None
    (plan,) = forward.leaf.program.plans[-1:]
    gather, rows = (kernel.text for kernel in plan.kernels if kernel is not None)
    assert "in_range" in gather
    assert "in_range" not in rows
    assert "(torch;" not in explain(jfn)
