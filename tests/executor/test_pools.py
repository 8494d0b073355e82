"""Pools are means of reshapes, forward and backward."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, jit, regions

pytestmark = pytest.mark.usefixtures("device")
Program = Callable[[torch.Tensor], torch.Tensor]

OURS: dict[str, Program] = {
    "pairs": lambda x: F.avg_pool2d(x, 2),
    "stride": lambda x: F.avg_pool2d(x, (2, 3), (2, 3), 0, False, False),
    "remainder": lambda x: F.avg_pool2d(x, (3, 4), stride=[3, 4]),
    "whole in ceil mode": lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True, count_include_pad=False),
    "one place each": lambda x: F.avg_pool2d(x, 1),
    "rows": lambda x: F.avg_pool1d(x[0], 3),
    "volumes": lambda x: F.avg_pool3d(x, 2),
    "global": lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1),
    "adaptive": lambda x: F.adaptive_avg_pool2d(x, (4, 2)),
    "adaptive row": lambda x: F.adaptive_avg_pool1d(x[0], 6),
    "as a module": torch.nn.AdaptiveAvgPool2d((1, 1)),
    "channels innermost": lambda x: F.avg_pool2d(x.permute(0, 3, 1, 2), 2),
}

TORCHS: dict[str, Program] = {
    "overlap": lambda x: F.avg_pool2d(x, 3, 2),
    "padded": lambda x: F.avg_pool2d(x, 2, 2, 1),
    "divisor": lambda x: F.avg_pool2d(x, 2, divisor_override=3),
    "adaptive of different sizes": lambda x: F.adaptive_avg_pool2d(x, 5),
}


@pytest.mark.parametrize("name", OURS)
def test_windows_side_by_side_are_part_of_a_region(name: str) -> None:
    x = torch.randn(2, 4, 8, 12, requires_grad=True)
    found = regions(check(lambda x: torch.sigmoid(OURS[name](x * 2)), x))
    assert len(found.forward) == len(found.backward) == 1
    assert not any("convolution" in prim for group in found.forward for prim in group)


@pytest.mark.parametrize("name", TORCHS)
def test_other_windows_are_left(name: str) -> None:
    check(lambda x: TORCHS[name](x * 2), torch.randn(2, 4, 8, 12, requires_grad=True))


@pytest.mark.parametrize(
    "program", [lambda x: F.avg_pool2d(x, 20), lambda x: F.avg_pool2d(x, 0)], ids=["large", "none"]
)
def test_what_torch_refuses_is_refused(program: Program) -> None:
    x = torch.randn(1, 2, 8, 12)
    for function in (program, jit(program)):
        with pytest.raises((RuntimeError, ZeroDivisionError)):
            function(x)
