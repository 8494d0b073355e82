"""What torch took is explained as the prim that it was."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import jit
from thunder_fuser import explain

pytestmark = pytest.mark.usefixtures("device")

OUTSIDE: dict[str, tuple[Callable[..., Any], str]] = {
    "a pad that stands alone": (
        lambda x: torch.cumprod(F.pad(x, (1, 1)), 0),
        "torch_pad_prim_impl  outside: a region of one op",
    ),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_the_reason_is_that_of_the_prim(name: str, device: torch.device) -> None:
    program, reason = OUTSIDE[name]
    jfn = jit(program)
    jfn(torch.randn(4, 6, device=device, requires_grad=True)).sum().backward()
    assert reason in explain(jfn)
    assert "no rule for torch" not in explain(jfn)
