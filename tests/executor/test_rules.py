"""Regions of one op: torch's, but where its kernel would be slow."""

from __future__ import annotations

from typing import Any

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


@pytest.mark.parametrize(("rows", "count"), [(2048, 1), (2047, 0)])
@pytest.mark.parametrize(
    "reduce",
    [
        lambda x: x.sum(),
        lambda x: x.amax(0),
        lambda x: x.argmax(1),
        lambda x: torch.var_mean(x, 0),
        lambda x: x.cumsum(1),
    ],
)
def test_one_reduction_of_much_is_ours(reduce: Any, rows: int, count: int) -> None:
    assert len(regions(check(reduce, whole(rows, 512))).forward) == count


@pytest.mark.parametrize(("rows", "count"), [(2048, 1), (2047, 0)])
@pytest.mark.parametrize(
    "copy",
    [
        lambda x: x.t().contiguous(),
        lambda x: x.unsqueeze(0).transpose(1, 2)[:].contiguous(),
        lambda x: x[:1].expand(x.shape[0], 512).reshape(-1),
        lambda x: x.t() * 2.0,
        lambda x: x.reshape(-1, 2, 16, 16).permute(2, 0, 1, 3).reshape(-1, 512),
    ],
)
def test_one_op_that_reads_much_out_of_order_is_ours(copy: Any, rows: int, count: int) -> None:
    assert len(regions(check(copy, whole(rows, 512))).forward) == count


@pytest.mark.parametrize(("rows", "count"), [(2048, 1), (2047, 0)])
def test_much_that_a_mask_chooses_is_ours(rows: int, count: int) -> None:
    """As the gradient of a relu is."""
    x = whole(rows, 512)
    assert len(regions(check(lambda x, m: torch.where(m, x, 0.0), x, x > 1)).forward) == count


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x.t().reshape(2048, 512),  # what attention returns needs no copy
        lambda x: x.contiguous(),
        lambda x: x * 2.0,
    ],
)
def test_what_torch_does_as_well_is_torchs(view: Any) -> None:
    assert not regions(check(view, whole(2048, 512))).forward


def test_a_broadcast_alone_stays_a_view() -> None:
    jfn = check(lambda x: x.sum(0), whole(2048, 512).requires_grad_())
    assert not regions(jfn).backward
