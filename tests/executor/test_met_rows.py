"""Gradients of group norms: the sums of a group are sums of those of its channels, which meet in
the block that has them. One pass, and a kernel for the gradients of the weights."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F

from tests.executor.judging import judged
from tests.executor.test_short_rows import texts

pytestmark = [pytest.mark.sanitizer, pytest.mark.usefixtures("one_multiprocessor")]
Program = Callable[..., torch.Tensor]


def norm(groups: int, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.group_norm(x, groups, w, b)


def activated(groups: int, x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return F.silu(F.group_norm(x, groups, w, b))


def gradient(
    program: Program, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> list[str]:
    """The kernels of the gradients, which are as exact as eager's."""
    x = torch.randn(shape, dtype=dtype) + 1
    w, b = torch.randn(shape[1], dtype=dtype), torch.randn(shape[1], dtype=dtype)
    return texts(judged(program, (x, w, b), torch.randn(shape, dtype=dtype), device))


PROGRAMS = pytest.mark.parametrize(
    ("program", "dtype"),
    [(norm, torch.float32), (activated, torch.bfloat16)],
    ids=["norm in f32", "activated in bf16"],
)
MET = {
    "whole vectors": ((4, 24, 24, 28), 3),
    "threads without a vector": ((5, 24, 14, 30), 6),
    "vectors of four": ((6, 32, 14, 14), 2),
    "odd planes": ((3, 24, 37, 41), 8),
    "short odd planes": ((9, 80, 7, 7), 10),
    "short odd planes, a block of several groups": ((16, 48, 7, 7), 16),
    "short odd planes, a block of one odd group": ((9, 75, 7, 7), 1),
    "short odd planes, a block of several odd groups": ((45, 15, 7, 7), 5),
    "planes of pairs": ((31, 22, 5, 10), 2),
    "three channels a group": ((3, 9, 36, 38), 3),
    "one group": ((5, 40, 16, 16), 1),
    "eighty channels a group": ((3, 160, 8, 10), 2),
}


@PROGRAMS
@pytest.mark.parametrize("name", MET)
def test_channels_meet_in_a_block(
    name: str, program: Program, dtype: torch.dtype, device: torch.device
) -> None:
    shape, groups = MET[name]
    meet, _ = gradient(partial(program, groups), shape, dtype, device)
    assert re.search(rf"combine_(warps|by_lanes)<{shape[1] // groups}>", meet)
    assert "_rows + place" in meet or "short" not in name


@PROGRAMS
def test_a_channel_alone_is_read_once_too(
    program: Program, dtype: torch.dtype, device: torch.device
) -> None:
    assert len(gradient(partial(program, 6), (7, 6, 32, 32), dtype, device)) == 2


CLUSTERS = {
    "a few blocks": ((2, 20, 64, 64), 2),
    "threads without a vector": ((2, 10, 60, 62), 1),
    "several warps a row": ((2, 3, 96, 128), 1),
    "a part of a warp": ((2, 33, 30, 30), 1),
}


@PROGRAMS
@pytest.mark.parametrize("name", CLUSTERS)
def test_channels_meet_in_each_block_of_a_cluster(
    name: str, program: Program, dtype: torch.dtype, device: torch.device
) -> None:
    shape, groups = CLUSTERS[name]
    meet, _ = gradient(partial(program, groups), shape, dtype, device)
    assert "__cluster_dims__" in meet
    assert re.search(rf"combine_(warps|by_lanes)<{shape[1] // groups}>", meet)


@PROGRAMS
@pytest.mark.usefixtures("without_clusters")
def test_without_clusters_such_groups_are_read_twice(
    program: Program, dtype: torch.dtype, device: torch.device
) -> None:
    assert len(gradient(partial(program, 2), (2, 20, 64, 64), dtype, device)) > 2


@PROGRAMS
@pytest.mark.parametrize(("shape", "groups"), [((2, 20, 123, 121), 2)])
def test_groups_that_no_cluster_holds_are_read_twice(
    shape: tuple[int, ...],
    groups: int,
    program: Program,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    assert len(gradient(partial(program, groups), shape, dtype, device)) > 2


@PROGRAMS
@pytest.mark.parametrize(
    ("shape", "groups"), [((1, 3, 1, 1), 1), ((3, 4, 1, 2), 2), ((2, 6, 5, 7), 3)]
)
def test_planes_of_any_size_have_gradients_like_eagers(
    shape: tuple[int, ...],
    groups: int,
    program: Program,
    dtype: torch.dtype,
    device: torch.device,
) -> None:
    gradient(partial(program, groups), shape, dtype, device)
