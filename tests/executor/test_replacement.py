"""A symbol that is replaced as a whole: once for its result, once with its gradient."""

from __future__ import annotations

from typing import Any

import thunder.torch as ltorch

from thunder_fuser.executor.replacement import Computed, Replacement


def test_only_a_gradient_runs_backward() -> None:
    ran: list[Any] = []

    def compute(a: int) -> Computed:
        return 2 * a, lambda: ran.append(a)

    doubled = Replacement(ltorch.relu, lambda a: True, compute)
    assert doubled.forward(3) == 6
    assert ran == []
    assert doubled.gradient(4) == 8
    assert ran == [4]
