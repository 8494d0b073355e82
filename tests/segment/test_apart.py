"""What is made of tensors in memory, and what never lies there for it."""

from __future__ import annotations

import torch

from tests.programs import chain, fusion, like, stop, total
from thunder_fuser.segment.apart import Apart


def test_what_torch_runs_and_reads_is_in_memory() -> None:
    (a,) = like(torch.empty(64, 48))
    fed = chain(a, "neg")
    sums = total(fed, 0)
    after = chain(stop(chain(sums, "exp")), "neg")
    apart = Apart(fusion([a], after), frozenset({sums}))
    (stopped,) = after.definition.tensors if after.definition else ()
    assert apart.boundaries() == [fed, sums, stopped]
    assert apart.indexing == frozenset()
