"""Which sums of a whole plane are summed by rows, and that results stay what they are."""

from __future__ import annotations

import pytest
import torch

from tests.programs import expand, fusion, like, machine, reshape, total
from thunder_fuser.analysis.reductions import MIN_SHARED
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.sum_rows_first import sum_rows_first
from thunder_fuser.runtime.evaluate import evaluate

ROWS, COLUMNS = 37, 65


def below(x: TensorView, row: TensorView) -> TensorView:
    """`x` without what its rows have one of."""
    return call("sub", x, expand(reshape(row, ROWS, 1), ROWS, COLUMNS))


def program(x: TensorView, *dims: int) -> Fusion:
    return fusion([x], total(call("exp", below(x, call("max", x, dims=(1,)))), *dims))


def test_a_plane_is_summed_by_the_rows_that_its_terms_need() -> None:
    (x,) = like(x0 := torch.randn(ROWS, COLUMNS))
    whole = program(x, 0, 1)
    made = sum_rows_first(whole, machine(ROWS))
    text = str(made)
    assert f"f32[i{ROWS}, r{COLUMNS}] = sum(" in text
    assert f"f32[r{ROWS}] = sum(" in text
    (exact,) = evaluate(whole, (x0.double(),))
    (found,) = evaluate(made, (x0,))
    torch.testing.assert_close(found.double(), exact.double(), rtol=1e-5, atol=1e-5)


def test_fewer_rows_than_multiprocessors_stay() -> None:
    whole = program(tensor(DataType.Float, ROWS, COLUMNS), 0, 1)
    assert sum_rows_first(whole, machine(ROWS + 1)) is whole


@pytest.mark.parametrize("more", [0, 1])
def test_long_rows_that_may_be_cut_are_summed_first(more: int) -> None:
    columns = MIN_SHARED + more
    x = tensor(DataType.Float, 2, columns)
    below_most = call("sub", x, expand(reshape(call("max", x, dims=(1,)), 2, 1), 2, columns))
    whole = fusion([x], total(below_most, 0, 1))
    made = sum_rows_first(whole, machine(3))
    if more:
        assert made is whole
    else:
        assert f"f32[i2, r{columns}] = sum(" in str(made)


def test_terms_that_need_no_row_stay() -> None:
    x = tensor(DataType.Float, ROWS, COLUMNS)
    beside = call("max", x, dims=(1,))
    whole = fusion([x], total(call("exp", x), 0, 1), beside)
    assert sum_rows_first(whole, machine(1)) is whole


def test_sums_along_or_down_stay() -> None:
    x = tensor(DataType.Float, ROWS, COLUMNS)
    for dim in (0, 1):
        whole = program(x, dim)
        assert sum_rows_first(whole, machine(1)) is whole


@pytest.mark.parametrize("is_stored", [False, True])
def test_odd_rows_are_summed_apart_whose_terms_read_what_columns_have_one_of(
    is_stored: bool,
) -> None:
    """By rows, or down the columns where the plane is stored."""
    x, weight = tensor(DataType.BFloat16, ROWS, 1025), tensor(DataType.Float, 1025)
    product = call("mul", call("cast", x, dtype=DataType.Float), expand(weight, ROWS, 1025))
    beside = [call("cast", product, dtype=DataType.BFloat16)] if is_stored else []
    made = str(sum_rows_first(fusion([x, weight], total(product, 0, 1), *beside), machine(1)))
    assert ("f32[r1025] = sum(" if is_stored else f"f32[r{ROWS}] = sum(") in made


def test_even_rows_and_terms_of_the_plane_alone_stay() -> None:
    for columns, factor in ((1024, 1024), (1025, 1)):
        x, weight = tensor(DataType.BFloat16, ROWS, columns), tensor(DataType.Float, factor)
        product = call("mul", call("cast", x, dtype=DataType.Float), expand(weight, ROWS, columns))
        whole = fusion([x, weight], total(product, 0, 1))
        assert sum_rows_first(whole, machine(1)) is whole
