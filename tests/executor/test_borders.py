"""Pads of what an image has itself are part of a region, and have torch's values."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, jit, regions

pytestmark = pytest.mark.usefixtures("device")
MODES = ("circular", "reflect", "replicate")


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("pad", [(1, 2, 3, 0), (0, 2), (3, 3, 2, 2)], ids=str)
def test_edges_are_part_of_a_region(mode: str, pad: tuple[int, ...]) -> None:
    x = torch.randn(2, 4, 6, requires_grad=True)
    found = regions(check(lambda x: torch.sin(F.pad(x * 2, pad, mode=mode)), x))
    assert len(found.forward) == len(found.backward) == 1


def test_a_module_pads() -> None:
    check(torch.nn.ReflectionPad2d(1), torch.randn(1, 2, 4, 5, requires_grad=True))


@pytest.mark.parametrize("mode", MODES)
def test_no_pad_is_a_copy(mode: str) -> None:
    check(lambda x: (F.pad(x, (0, 0), mode=mode).add_(1), x * 2), torch.randn(2, 3, 4))


@pytest.mark.parametrize("mode", MODES[:2])
def test_a_pad_that_is_too_wide_is_refused(mode: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return F.pad(x, (0, 5), mode=mode) * 2

    for function in (program, jit(program)):
        with pytest.raises(RuntimeError):
            function(torch.randn(2, 3, 4))
