"""What many planes read is gathered once, where each element has a place of its own."""

from __future__ import annotations

import pytest

from tests.programs import chain, expand, fusion, ints, permute, reshape, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.presegment.gather_once import gather_once


def biased(images: int, heads: int, n: int) -> Fusion:
    """Scores with a bias for each pair of places, from a table of 25."""
    x, table = tensor(DataType.Float, images, heads, n, n), tensor(DataType.Float, 25, heads)
    index = tensor(DataType.Int, n * n)
    found = reshape(call("index_select", table, index, dim=0), n, n, heads)
    bias = unsqueeze(permute(found, 2, 0, 1), 0)
    return fusion([x, table, index], call("add", x, expand(bias, images, heads, n, n)))


def test_a_bias_of_many_images_is_stored() -> None:
    text = str(gather_once(biased(64, 16, 256)))
    assert text.count("segment_set") == 1
    assert "segment_set(T6)" in text


@pytest.mark.parametrize("shape", [(4, 16, 512), (64, 3, 49)])
def test_of_few_images_or_few_elements_it_is_not(shape: tuple[int, int, int]) -> None:
    program = biased(*shape)
    assert gather_once(program) is program


def test_rows_that_are_gathered_whole_stay_where_they_are_read() -> None:
    x, table = tensor(DataType.Float, 64, 256, 512), tensor(DataType.Float, 25, 512)
    index = tensor(DataType.Int, 256)
    rows = chain(call("index_select", table, index, dim=0), "exp")
    program = fusion([x, table, index], call("add", x, expand(unsqueeze(rows, 0), *x.shape)))
    assert gather_once(program) is program


def test_a_gather_of_numbers_is_a_check_of_its_index_and_stays() -> None:
    """As in one_hot: nothing in memory is read at the index."""
    x, index = tensor(DataType.Float, 64, 16, 4096), tensor(DataType.Int, 4096)
    numbers = call("iota", *ints([0, 1]), length=ints([16]), dtype=DataType.Int)
    checked = unsqueeze(unsqueeze(call("index_select", numbers, index, dim=0), 0), 0)
    program = fusion([x, index], call("mul", x, expand(checked, *x.shape)))
    assert gather_once(program) is program
