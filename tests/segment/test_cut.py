"""Where a region is cut, and what travels between its segments."""

from __future__ import annotations

import pytest
import torch

from tests.programs import (
    chain,
    check,
    expand,
    fusion,
    like,
    pad,
    stop,
    unsqueeze,
)
from tests.segment.edges import edges
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def test_a_widened_value_travels_narrow() -> None:
    x, y = (torch.randn(6, 20, dtype=torch.bfloat16) for _ in range(2))
    a, b = like(x, y)
    wide = call("cast", call("mul", a, b), dtype=DataType.Float)
    plan = check(fusion([a, b], chain(stop(wide), "neg")), x, y)
    assert edges(plan) == ["bf16[6, 20]"]


def test_an_expanded_value_travels_once() -> None:
    x, y = torch.randn(5, 7), torch.randn(5, 4, 7)
    a, b = like(x, y)
    wide = expand(unsqueeze(chain(a, "neg"), 1), 5, 4, 7)
    plan = check(fusion([a, b], call("mul", stop(wide), b)), x, y)
    assert plan.segmented.edge_bytes == 5 * 7 * 4


def test_a_padded_value_travels_without_its_fill() -> None:
    x = torch.randn(5, 7)
    (a,) = like(x)
    plan = check(fusion([a], chain(stop(pad(chain(a, "neg"), [3, 4], 2.0)), "abs")), x)
    assert edges(plan) == ["f32[5, 7]"]


def test_a_diamond_with_a_stop_in_one_arm_reads_each_value_once() -> None:
    x, y = torch.randn(9, 11), torch.randn(9, 11)
    a, b = like(x, y)
    top = call("mul", a, b)
    left, right = stop(chain(top, "abs")), chain(top, "neg")
    plan = check(fusion([a, b], call("add", left, right)), x, y)
    assert plan.launches == 2


def test_a_region_that_only_writes_is_one_launch() -> None:
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    a, b = like(x, y)
    plan = check(fusion([a, b], writes=[(call("add", a, b), a)]), x, y)
    assert plan.launches == 1
