"""Threads that have whole rows of a plane, in place of 32 that do not."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import H200, STRICT, chain, check, fusion, like, total, whole
from tests.schedule.segments import floats, segment_of
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import columns
from thunder_fuser.schedule.abreast import abreast


@pytest.mark.parametrize(
    ("shape", "dim", "threads"),
    [
        ((4096, 132), 0, 33),  # 32 of 64 would have one of the 33 vectors
        ((4096, 128), 0, None),
        ((4096, 500), 0, None),  # of 128 threads three have none
        ((4096, 400), 0, 50),  # 100 vectors are too many threads
        ((4096, 388), 0, None),  # a prime number of them
        ((4096, 20), 0, None),  # in 8 threads of four rows
        ((64, 512, 100), 1, 25),  # rows of 400 bytes
        ((64, 512, 192), 1, None),  # whole lines, wherever a warp goes on
    ],
)
def test_whole_rows_are_abreast_where_few_threads_are_full(
    shape: tuple[int, ...], dim: int, threads: int | None
) -> None:
    assert abreast([total(floats(*shape), dim)], 16, 4, 32) == threads


def test_rows_of_two_lengths_are_no_whole_rows() -> None:
    x, y = floats(64, 512, 100), floats(64, 100, 512)
    assert abreast([total(x, 1), total(y, 1)], 16, 4, 32) is None


def stored_beside(x: TensorView) -> tuple[TensorView, TensorView]:
    return chain(x, "exp"), total(chain(x, "neg"), x.ndim - 2)


@pytest.mark.parametrize(
    ("shape", "across", "down", "splits"),
    [
        ((1016800, 66), 33, 8, 396),  # 33 vectors of 8 bytes; all blocks at once
        ((655, 1024, 100), 25, 8, 3),
        ((4096, 66), 16, 64, 32),  # too few blocks for whole rows
    ],
)
def test_blocks_have_whole_rows_where_there_are_enough(
    shape: tuple[int, ...], across: int, down: int, splits: int
) -> None:
    x = floats(*shape)
    found = columns.schedule(segment_of([x], *stored_beside(x)), H200)
    assert (found.threads_across, found.threads_down, found.splits) == (across, down, splits)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("shape", [(7000, 34), (67, 45, 100), (33, 1100, 36)], ids=str)
def test_whole_rows_are_summed_as_others_are(shape: tuple[int, ...], order: str) -> None:
    x = whole(*shape).to(torch.float16)
    (a,) = like(x)
    options = replace(STRICT, thread_order=order)
    check(fusion([a], *stored_beside(a)[1:], chain(a, "abs")), x, options=options)
