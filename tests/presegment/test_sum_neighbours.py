"""Sums of what neighbours come to are over whole planes, and of a few rows first."""

from __future__ import annotations

import pytest
import torch

from tests.programs import cat, chain, fusion, like, machine, pad, piece, total
from tests.schedule.segments import floats, halves
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.sum_neighbours import BUSY, sum_neighbours
from thunder_fuser.runtime.evaluate import evaluate


def steps(x: TensorView, dim: int) -> TensorView:
    size = x.shape[dim]
    return call("sub", piece(x, dim, 1, size), piece(x, dim, 0, size - 1))


def variation(x: TensorView) -> Fusion:
    """How far neighbours along the last two dims are from each other."""
    return fusion([x], *(total(call("abs", steps(x, dim)), 0, 1, 2) for dim in (1, 2)))


def test_both_sums_are_of_the_plane_and_of_rows_of_a_thread_first() -> None:
    text = str(sum_neighbours(variation(halves(512, 24, 64)), machine(5)))
    assert text.count("pad(") == 2
    assert text.count("[i512, i3, r8, i64] = sum(") == 2
    assert text.count("[r512, r3, r64] = sum(") == 2


@pytest.mark.parametrize("rows", [8, 4, 1])
def test_threads_keep_the_machine_busy_before_they_have_rows(rows: int) -> None:
    busy = 512 * 24 * 64 // (8 * rows * BUSY)  # multiprocessors
    text = str(sum_neighbours(variation(halves(512, 24, 64)), machine(busy)))
    assert (f", r{rows}, i64] = sum(" in text) == (rows > 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sums_stay_what_they_are(dtype: torch.dtype) -> None:
    (x,) = like(x0 := torch.randn(160, 24, 33 if dtype is torch.float64 else 64, dtype=dtype))
    whole = variation(x)
    made = sum_neighbours(whole, machine(1))
    assert made is not whole
    for found, exact in zip(evaluate(made, (x0,)), evaluate(whole, (x0.double(),)), strict=True):
        torch.testing.assert_close(found.double(), exact.double(), rtol=1e-5, atol=0)


def test_of_rows_that_align_nothing_a_thread_has_a_column() -> None:
    assert "[i512, i1, r24, i63] = sum(" in str(
        sum_neighbours(variation(halves(512, 24, 63)), machine(1))
    )


def test_results_of_which_terms_leave_some_out_keep_their_terms() -> None:
    x = floats(512, 24, 64)
    whole = fusion([x], total(steps(x, 0), 1, 2))
    assert sum_neighbours(whole, machine(1)) is whole


def test_what_is_joined_to_itself_has_more_terms_than_its_plane() -> None:
    x = floats(1024, 24)
    joined = fusion([x], total(cat(x, chain(x, "neg"), dim=0), 0, 1))
    assert sum_neighbours(joined, machine(1)) is joined


def test_terms_of_one_element_each_and_sums_beside_what_is_stored_stay() -> None:
    x = floats(512, 24, 64)
    alone = fusion([x], total(piece(x, 1, 1, 24), 0, 1, 2))
    made = pad(steps(x, 2), [0, 1])
    stored = fusion([x], made, total(made, 0, 1, 2))
    assert sum_neighbours(alone, machine(1)) is alone
    assert sum_neighbours(stored, machine(1)) is stored
