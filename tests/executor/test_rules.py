"""Regions of one op: torch's, but where its kernel would be slow."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import check, regions
from tests.programs import whole

pytestmark = pytest.mark.usefixtures("device")


def test_one_op_is_torchs() -> None:
    assert not regions(check(torch.sin, torch.randn(3, 5))).forward


@pytest.mark.parametrize(("rows", "count"), [(2048, 1), (2047, 0)])
def test_one_op_that_spreads_a_row_over_much_memory_is_ours(rows: int, count: int) -> None:
    """The gradient of a sum, 4 MiB or a row less."""
    jfn = check(lambda x: (x * 2.0).sum(0), whole(rows, 512).requires_grad_())
    assert len(regions(jfn).backward) == count


def test_a_broadcast_alone_stays_a_view() -> None:
    jfn = check(lambda x: x.sum(0), whole(2048, 512).requires_grad_())
    assert not regions(jfn).backward
