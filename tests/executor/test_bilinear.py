"""Upsampling by whole factors is one region each way, and has torch's values."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, regions

pytestmark = pytest.mark.usefixtures("device")

WHOLE: tuple[dict[str, Any], ...] = (
    {"scale_factor": 2},
    {"scale_factor": (3, 1.0), "align_corners": False},
    {"size": (16, 12)},
    {"size": 12},
    {"scale_factor": 1.0},
)


@pytest.mark.parametrize("given", WHOLE, ids=str)
def test_neighbours_are_part_of_a_region(given: dict[str, Any]) -> None:
    x = torch.randn(2, 3, 4, 6, requires_grad=True)
    found = regions(check(lambda x: F.interpolate(x * 2, mode="bilinear", **given) + 1, x))
    assert len(found.forward) == len(found.backward) == 1
    assert "take" not in found.forward[0]


def test_one_place_is_both_edges() -> None:
    x = torch.randn(2, 1, 1, 2, requires_grad=True)
    check(lambda x: F.interpolate(x, scale_factor=3, mode="bilinear"), x)


def test_a_result_is_a_copy() -> None:
    check(
        lambda x: (F.interpolate(x, scale_factor=1, mode="bilinear").add_(1), x * 2),
        torch.randn(1, 2, 3, 4),
    )


def test_sixteen_bits_are_added_wide() -> None:
    x = torch.randn(2, 3, 5, 6, dtype=torch.bfloat16, requires_grad=True)
    check(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), x)


@pytest.mark.parametrize("size", [(4, 14), (3, 7), (3, 41), (2, 130)], ids=str)
def test_rows_are_stored_whole_or_beside_their_edges(size: tuple[int, int]) -> None:
    x = torch.randn(2, 3, *size, dtype=torch.bfloat16, requires_grad=True)
    check(lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), x)


@pytest.mark.parametrize(
    "given",
    [
        {"scale_factor": 2, "mode": "nearest"},
        {"scale_factor": (2, 3), "mode": "nearest-exact"},
        {"size": (7, 9), "mode": "bilinear", "align_corners": False},
        {"scale_factor": 8, "mode": "bilinear"},
    ],
    ids=str,
)
def test_others_are_thunders(given: dict[str, Any]) -> None:
    x = torch.randn(2, 3, 5, 6, requires_grad=True)
    found = regions(check(lambda x: F.interpolate(x * 2, **given), x))
    assert ("take" in found.forward[0]) == (given["mode"] == "bilinear")
