"""The whole line, from a fusion to the numbers that the kernels compute."""

from __future__ import annotations

import pytest
import torch

from tests.programs import check, fusion, like, total


@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 33), (7, 64), (5, 100), (8, 1000), (7, 1001), (3, 4096)]
)
def test_rows_that_share_a_block_are_summed_apart(rows: int, columns: int) -> None:
    x = torch.randint(-9, 9, (rows, columns))
    (a,) = like(x)
    check(fusion([a], total(a, 1)), x)
    check(fusion([b := like(x.float())[0]], total(b, 1)), x.float())
