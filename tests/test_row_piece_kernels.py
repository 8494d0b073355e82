"""Exponentials below maxima of rows and of columns in one read: values beside those of torch."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.presegment.test_both_ways import joined
from tests.programs import STRICT, chain, fusion, like, plan_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.presegment.both_ways import both_ways

pytestmark = [
    pytest.mark.usefixtures("device", "few_multiprocessors", "small_pieces"),
    pytest.mark.sanitizer,
]
RELAXED = replace(STRICT, strict=False)
# Whole vectors and batches; of part of a piece, and rows that no vector divides.
SHAPES = {"whole": (256, 512), "padded": (150, 520), "odd": (139, 301)}


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("MIN_ROWS", "MIN_COLUMNS", "MIN_ELEMENTS"):
        monkeypatch.setattr(import_module(both_ways.__module__), name, 1)


def values(rows: int, columns: int) -> torch.Tensor:
    """Noise; rows and columns far from others, and some of what is no finite number."""
    x = 5 * torch.randn(rows, columns)
    x[3] -= 400
    x[:, 2] -= 300
    x[:, 9] += 500
    x[rows // 2 :, 7] -= 200
    x[: rows // 2, 8] = x[40:44, 32:64] = x[7] = x[:, 5] = -torch.inf
    x[50] = x[:, 70] = torch.finfo(torch.bfloat16).min
    x[5, 3], x[90, 4], x[90, 20] = torch.inf, torch.inf, torch.nan
    return x.to(torch.bfloat16)


def checked(x: torch.Tensor, order: str = "forward") -> None:
    (a,) = like(x)
    wide = call("cast", a, dtype=DataType.Float)
    most, highest, *sums = joined(wide, 1, 0)
    program = fusion([a], most, highest, *(chain(tv, "log") for tv in sums))
    plan = plan_of(program, *copies([x]), options=replace(RELAXED, thread_order=order))
    assert sum("tf::both_ways" in text for text in plan.sources if text is not None) == 1
    assert plan.launches == 2
    found = [t.cpu().double() for t in plan.run(*copies([x]))]
    for top, log, dim in zip(found[:2], found[2:], (1, 0), strict=True):
        exact = x.double()
        assert torch.equal(top.nan_to_num(), exact.amax(dim).nan_to_num())
        below = (exact - exact.amax(dim, keepdim=True)).exp().sum(dim).log()
        torch.testing.assert_close(log, below, rtol=1e-6, atol=1e-6, equal_nan=True)


@pytest.mark.parametrize("name", SHAPES)
def test_logarithms_of_sums_are_those_of_torch(name: str) -> None:
    checked(values(*SHAPES[name]))


@pytest.mark.parametrize("order", ORDERS)
def test_so_are_those_of_noise_in_any_order(order: str) -> None:
    checked((torch.randn(256, 512) + 1000).to(torch.bfloat16), order)
