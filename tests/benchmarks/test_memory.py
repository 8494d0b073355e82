"""What a backward keeps alive."""

from __future__ import annotations

import pytest
import thunder
import torch

from benchmarks.memory import MIB, saved_mib
from thunder_fuser import fuser


def test_a_storage_counts_once_and_what_was_given_not_at_all() -> None:
    x = torch.randn(256, 1024, requires_grad=True)  # one MiB
    y = torch.tanh(x)  # saves its result
    assert saved_mib([y], [x]) == 1
    assert saved_mib([y * y.view(-1).view_as(y)], [x]) == 1
    assert saved_mib([y * x, y.exp()], [x]) == 2
    assert saved_mib([x * x], [x]) == 0
    assert saved_mib([y.detach()], [x]) == 0


def test_a_saved_tensor_that_was_written_since_is_not_counted_wrongly() -> None:
    x = torch.randn(4, requires_grad=True)
    assert saved_mib([torch.tanh(x).add_(1)], [x]) is None


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU CPU tensors are left alone")
def test_what_thunder_saves_is_found() -> None:
    def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.softmax(torch.sin(x) * y, -1)

    x, y = (torch.randn(256, 1024, requires_grad=True) for _ in range(2))
    jitted = thunder.jit(function, executors=[fuser], fuser_evaluator=True)
    # The two numbers of each row; all else is computed again from the inputs.
    assert saved_mib([jitted(x, y)], [x, y]) == 2 * 256 * 4 / MIB
