"""What a map kernel's text hides from the compiler."""

from __future__ import annotations

import pytest
import torch

from tests.programs import H200, cat, check, cuda_kernels, fusion, like, pad, reshape, whole
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.options import Options


def bordered(x: torch.Tensor) -> Fusion:
    """Rows moved by an element, three times: an inner class and two of one element a row, of which
    the last thread of the first is further than 2^31 / stride from the beginning."""
    tv = like(x)
    moved = pad(tv[0], [-1, 1])
    return fusion(tv, cat(moved, moved, moved))


def test_where_a_class_of_blocks_begins_is_hidden() -> None:
    x = whole(3, 65536, dtype=torch.int64)
    _, (kernel,) = cuda_kernels(bordered(x), x, target=H200)
    text = emit(kernel).text
    assert "const int thread = (round * 1 + tf::settled(int(turn - 769))) * 128" in text


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(("rows", "columns"), [(3, 65536), (5, 40961)])
def test_classes_of_one_stride_store_each_where_it_belongs(rows: int, columns: int) -> None:
    """On a GPU the last class wrote 32 GB behind its tensor."""
    x = whole(rows, columns, dtype=torch.int64)
    check(bordered(x), x, options=Options(tune="off"))


@pytest.mark.usefixtures("device")
def test_lanes_cross_a_row_that_begins_where_a_tensor_says() -> None:
    x, index = whole(8, 1, dtype=torch.int32), torch.tensor([11, 0, 4, 7, 1, 10])
    a, b = like(x, index)
    pairs = reshape(cat(a, a, a), 12, 2)
    check(fusion((a, b), call("index_select", pairs, b, dim=0)), x, index)
