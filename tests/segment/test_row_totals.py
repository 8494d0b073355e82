"""Which sums over all rows are at the depth of the rows."""

from __future__ import annotations

import pytest
import torch

from tests.programs import chain, expand, fusion, like, permute, piece, reshape, stop, total
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.depth import depths
from thunder_fuser.segment.row_totals import MANY

NONE: frozenset[TensorView] = frozenset()
REASON = "needs a sum over rows whole"


def depth_of(program: Fusion, *tensors: TensorView) -> list[int]:
    found = depths(program, NONE, NONE)
    return [found[tv] for tv in tensors]


@pytest.mark.parametrize("rows", [2, 20, 64, MANY])
def test_a_sum_of_what_rows_were_reduced_to_is_behind_no_cut(rows: int) -> None:
    (a,) = like(torch.empty(rows, 48))
    row = chain(total(a, 1), "exp")
    whole = total(row, 0)
    after = chain(whole, "log")
    assert depth_of(fusion([a], row, after), row, whole, after) == [0, 0, 0]


def test_more_rows_than_a_launch_costs_are_summed_behind_a_cut() -> None:
    (a,) = like(torch.empty(MANY + 1, 48))
    row = total(a, 1)
    whole = total(row, 0)
    assert depth_of(fusion([a], whole), row, whole) == [0, 1]


def test_a_sum_of_as_many_weights_comes_along_wherever_the_rows_are() -> None:
    a, w = like(torch.empty(64, 48), torch.empty(64))
    row, weights = total(chain(stop(chain(a, "neg")), "exp"), 1), total(w, 0)
    whole = total(row, 0)
    mean = call("div", whole, weights)
    assert depth_of(fusion([a, w], mean), row, whole, weights, mean) == [1, 1, 1, 1]


@pytest.mark.parametrize("is_first", [True, False])
def test_the_rows_are_walked_whatever_is_met_first(is_first: bool) -> None:
    a, w = like(torch.empty(64, 48), torch.empty(64))
    weights, whole = total(w, 0), total(total(a, 1), 0)
    mean = call("mul", *((weights, whole) if is_first else (whole, weights)))
    assert depth_of(fusion([a, w], mean), weights, whole, mean) == [0, 0, 0]


def test_what_has_more_elements_waits_for_the_sum() -> None:
    (a,) = like(torch.empty(64, 48))
    whole = total(total(a, 1), 0)
    spread = call("div", a, expand(reshape(whole, 1, 1), 64, 48))
    program = fusion([a], spread)
    assert depth_of(program, whole, spread) == [0, 1]
    assert depths(program, NONE, NONE).reasons() == {1: REASON}


def test_what_reads_a_row_beside_the_sum_waits_for_both() -> None:
    (a,) = like(torch.empty(64, 48))
    row = total(a, 1)
    whole = total(row, 0)
    first = call("sub", piece(row, 0, 0, 1), reshape(whole, 1))
    program = fusion([a], first)
    assert depth_of(program, whole, first) == [0, 1]
    assert depths(program, NONE, NONE).reasons() == {1: REASON}


def test_what_is_walked_again_is_summed_there() -> None:
    """One launch for the rows, and one for the sum and what is divided by it: as many as before."""
    (a,) = like(torch.empty(64, 48))
    row = total(a, 1)
    whole = total(row, 0)
    share = call("div", row, expand(reshape(whole, 1), 64))
    assert depth_of(fusion([a], share), row, whole, share) == [0, 1, 1]


@pytest.mark.parametrize("rows", [(5, 4), (5, 12)])
def test_rows_in_another_order_are_summed_behind_a_cut(rows: tuple[int, int]) -> None:
    (a,) = like(torch.empty(*rows, 48))
    row = total(a, 2)
    whole = total(permute(row, 1, 0), 0, 1)
    assert depth_of(fusion([a], whole), row, whole) == [0, 1]


@pytest.mark.parametrize("is_first", [True, False])
def test_sums_down_columns_keep_their_place_beside_the_rows(is_first: bool) -> None:
    (a,) = like(torch.empty(64, 48))
    down, row = total(a, 0), total(a, 1)
    whole = total(row, 0)
    outputs = (down, whole) if is_first else (whole, down)
    assert depth_of(fusion([a], *outputs), down, row, whole) == [0, 0, 1]


def test_rows_that_blocks_share_are_summed_behind_a_cut() -> None:
    (a,) = like(torch.empty(3, 70000))
    row = total(a, 1)
    whole = total(row, 0)
    found = depths(fusion([a], whole), NONE, NONE, lambda tv: tv is row)
    assert [found[row], found[whole]] == [0, 1]


def test_some_of_the_rows_are_summed_behind_a_cut() -> None:
    (a,) = like(torch.empty(2, 40, 64))
    row = total(a, 2)
    for some in (total(row, 1), total(piece(row, 0, 0, 1), 0, 1)):
        assert depth_of(fusion([a], some), row, some) == [0, 1]
