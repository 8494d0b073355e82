"""Pads of no width cost nothing where nobody can tell, and are copies where somebody can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, jit

pytestmark = pytest.mark.usefixtures("device")
NONE = (0, 0, 0, 0)


def traces(jfn: Any) -> str:
    backward = thunder.last_backward_traces(jfn)
    return str(thunder.last_traces(jfn)[-1]) + str(backward[-1] if backward else "")


def test_a_pad_whose_copy_nobody_sees_is_no_op() -> None:
    x = torch.randn(2, 3, 8, 8, requires_grad=True)
    assert "pad" not in traces(check(lambda x: F.pad(F.pad(x * 2, NONE), NONE).exp(), x))


def test_what_a_convolution_reads_is_not_copied() -> None:
    x, w = (torch.randn(*s, requires_grad=True) for s in ((2, 3, 8, 8), (4, 3, 2, 2)))
    jfn = check(lambda x, w: F.conv2d(F.pad(x, NONE), w).relu() * 2, x, w)
    assert "prims.pad" not in traces(jfn)


def _written(x: torch.Tensor) -> torch.Tensor:
    y = F.pad(x, NONE)
    y.add_(1)
    return y * x


def _written_behind(x: torch.Tensor) -> torch.Tensor:
    y = F.pad(x, NONE)
    x.add_(1)
    return y * x


KEPT: dict[str, Callable[[torch.Tensor], Any]] = {
    "returned": lambda x: (F.pad(x, NONE), x * 2),
    "a view of it is returned": lambda x: (F.pad(x, NONE)[0], x * 2),
    "written": _written,
    "what it copies is written": _written_behind,
    "not of no width": lambda x: F.pad(x, (0, 1, 0, 0)) * 2,
}


@pytest.mark.parametrize("name", KEPT)
def test_others_stay(name: str, device: torch.device) -> None:
    x = torch.randn(2, 3, 8, 8)
    jfn = jit(KEPT[name])
    given, wanted = x.clone().to(device), x.clone()
    found, expected = jfn(given), KEPT[name](wanted)
    torch.testing.assert_close(found, expected, check_device=False)
    torch.testing.assert_close(given, wanted, check_device=False)
    first = found[0] if isinstance(found, tuple) else found
    assert first.untyped_storage().data_ptr() != given.untyped_storage().data_ptr()
