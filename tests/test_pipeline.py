"""The whole line, from a fusion to the numbers that the kernels compute."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from tests.programs import (
    cat,
    chain,
    check,
    flip,
    full,
    fusion,
    like,
    plan_of,
    reshape,
    total,
    whole,
)
from thunder_fuser.ir.build import call
from thunder_fuser.runtime.evaluate import evaluate

pytestmark = pytest.mark.sanitizer
ON_EVERY_DEVICE = pytest.mark.usefixtures("device")


@ON_EVERY_DEVICE
@pytest.mark.parametrize(
    ("rows", "columns"), [(1, 33), (7, 64), (5, 100), (8, 1000), (7, 1001), (3, 4096)]
)
def test_rows_that_share_a_block_are_summed_apart(rows: int, columns: int) -> None:
    x = torch.randint(-9, 9, (rows, columns))
    (a,) = like(x)
    check(fusion([a], total(a, 1)), x)
    check(fusion([b := like(x.float())[0]], total(b, 1)), x.float())


def test_a_kernel_tells_how_many_bytes_it_moves() -> None:
    x = whole(7, 64)
    (a,) = like(x)
    (source,) = check(fusion([a], total(a, 1)), x).kernels
    assert source is not None
    assert source.moved == 7 * 64 * 4 + 7 * 4


@ON_EVERY_DEVICE
def test_a_guarded_read_of_an_expanded_axis_leaves_the_unguarded_one_alone() -> None:
    x = torch.tensor([[True]]).expand(1, 5)
    (a,) = like(x)
    row = reshape(cat(a, a, a, dim=1), 15, 1)
    check(fusion([a], row, flip(row, 0)), x)


@ON_EVERY_DEVICE
def test_a_kernel_may_be_handed_an_empty_value_that_nobody_writes() -> None:
    x = torch.randn(5, 0)
    (a,) = like(x)
    empty = full(1.0, 5, 0)
    rows = total(call("add", call("segment_set", call("add", a, empty)), a), 1)
    check(fusion([a], rows, empty), x)


@ON_EVERY_DEVICE
@pytest.mark.parametrize("shape", [(0, 1), (5, 0), (0,), (2, 0, 3), (0, 4)])
def test_an_empty_tensor_takes_any_empty_shape(shape: tuple[int, ...]) -> None:
    x = torch.randn(0, 4)
    (a,) = like(x)
    check(fusion([a], reshape(a, *shape), call("neg", reshape(a, *shape)), total(a, 0, 1)), x)


def test_constants_are_made_on_the_device_that_is_asked_for() -> None:
    program = fusion([], full(2.0, 3, 4), total(full(1.0, 40, 100), 0))
    for found in evaluate(program, [], device=torch.device("meta")):
        assert found.device.type == "meta"


@pytest.mark.parametrize("name", ["map", "rows"])
def test_nothing_remembers_a_fusion_whose_plan_is_gone(name: str) -> None:
    """On the host: the first kernels of a family on a GPU keep what its general form is made of."""
    x = torch.randn(5, 64)
    (a,) = like(x)
    plan = plan_of(fusion([a], chain(a, "neg") if name == "map" else total(a, 1)), x)
    made = weakref.ref(plan.segmented.fusion.outputs[0])
    del a, plan
    gc.collect()
    assert made() is None
