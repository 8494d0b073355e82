"""Rows of gathers: torch's values, and the types of an index."""

from __future__ import annotations

import pytest
import torch

from tests.programs import like
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ops import OPS, Family
from thunder_fuser.runtime.evaluate import row_function


def values(name: str, x: torch.Tensor, index: torch.Tensor, dim: int) -> torch.Tensor:
    return row_function(OPS[name])(x, index, dim=dim)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_index_select_is_torchs(dtype: torch.dtype) -> None:
    x, index = torch.randn(5, 3), torch.tensor([4, 0, 4], dtype=dtype)
    assert torch.equal(values("index_select", x, index, 0), x[[4, 0, 4]])


def test_an_index_along_an_axis_broadcasts_in_the_others() -> None:
    x, index = torch.randn(5, 1, 3), torch.randint(3, (1, 4, 7))
    wanted = torch.take_along_dim(x.expand(5, 4, 3), index.expand(5, 4, 7), 2)
    assert torch.equal(values("take_along_axis", x, index, 2), wanted)


@pytest.mark.parametrize("name", [row.name for row in OPS.values() if row.family is Family.GATHER])
@pytest.mark.parametrize("bad", [-1, 3])
def test_the_reference_wraps_no_index(name: str, bad: int) -> None:
    with pytest.raises((IndexError, RuntimeError)):
        values(name, torch.randn(3), torch.tensor([bad]), 0)


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.uint8])
def test_the_reference_checks_an_index_of_any_shape(dtype: torch.dtype) -> None:
    check = row_function(OPS["in_range"])
    index = torch.tensor([[4, 0], [2, 4]], dtype=dtype)
    assert torch.equal(check(index, 5), index.long())
    with pytest.raises((IndexError, RuntimeError)):
        check(index, 4)


@pytest.mark.parametrize("dtype", [DataType.Float, DataType.Bool])
def test_an_index_is_of_integers(dtype: DataType) -> None:
    with pytest.raises(TypeError, match=f"operand 1 has dtype {dtype}; it takes i16, i32"):
        call("index_select", tensor(DataType.Float, 4), tensor(dtype, 2), dim=0)


@pytest.mark.parametrize(
    ("name", "shapes", "message"),
    [
        ("index_select", ((4, 5), (2, 3)), "the index has rank 2; legal: 0 or 1"),
        ("take_along_axis", ((4, 5), (2,)), "the index has rank 1, x has rank 2"),
        ("take_along_axis", ((4, 5), (3, 2)), r"extents \[3, 4\] meet in one axis"),
    ],
)
def test_shapes_that_contradict_each_other_are_refused(
    name: str, shapes: tuple[tuple[int, ...], ...], message: str
) -> None:
    x, index = like(torch.empty(shapes[0]), torch.empty(shapes[1], dtype=torch.int64))
    with pytest.raises(ValueError, match=message):
        call(name, x, index, dim=1)
