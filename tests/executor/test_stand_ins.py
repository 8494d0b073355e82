"""What stands in for torch functions sees what containers hold, as Thunder's own symbols do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.executor.jitted import jit

X = torch.arange(6.0).reshape(2, 3)
CALLS: dict[str, tuple[Callable[[torch.Tensor, Any], torch.Tensor], Any, Any]] = {
    "flip": (lambda x, dims: torch.flip(x, dims) * 2, [0], [1]),
    "roll": (lambda x, dims: torch.roll(x, (1, 1), dims) * 2, (0, 0), (1, 1)),
    "sum": (lambda x, dims: x.sum(dims) * 2, [0], [1]),
    "mean": (lambda x, dims: torch.mean(x, dims) * 2, (0,), (1,)),
    "getitem": (lambda x, key: x[key] * 2, (0, 1), (1, 1)),
    "stack": (lambda x, many: torch.stack(many) + x, [X, X], [X + 1, X]),
    "of a dict": (lambda x, sizes: x.reshape(sizes["to"]) * 2, {"to": (3, 2)}, {"to": (6, 1)}),
    "a number": (lambda x, n: x * n + 1, 2.0, 3.0),
}


@pytest.mark.parametrize("name", CALLS)
def test_other_contents_are_another_call(name: str) -> None:
    program, first, second = CALLS[name]
    jfn = jit(program)
    for given in (first, second, first):
        assert torch.equal(jfn(X, given), program(X, given))
