"""Which running sums are split, into how many parts, and that their values stay."""

from __future__ import annotations

import pytest
import torch

from tests.programs import fusion, like
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.presegment.split_scans import split_scans
from thunder_fuser.runtime.evaluate import evaluate

SMS = 132


def scanned(*shape: int, dim: int, reverse: bool = False) -> Fusion:
    x = tensor(DataType.Float, *shape)
    return Fusion((x,), (call("cumsum", x, dim=dim, reverse=reverse),))


def parts(program: Fusion, dim: int) -> int | None:
    """The number of parts; None where the axis was left."""
    made = split_scans(program, SMS)
    if made is program:
        return None
    pieces = next(tv for tv in made.tensors if tv.ndim == program.outputs[0].ndim + 1)
    return pieces.shape[dim]


def test_each_part_goes_on_from_the_sum_of_those_before() -> None:
    made = str(split_scans(scanned(100, 32768, dim=1), SMS)).splitlines()
    assert made[4:8] == [
        "  T4: f32[i100, i8, i4096] = reshape(T0, new_shape=[100, 8, 4096])",
        "  T5: f32[i100, i8, r4096] = sum(T4, dims=[2])",
        "  T6: f32[i100, i8] = cumsum(T5, dim=1, reverse=False)",
        "  T7: f32[i100, i7] = "
        "slice(T6, start_indices=[0, 0], end_indices=[100, 7], strides=[1, 1])",
    ]
    assert made[-4:-2] == [
        "  T12: f32[i100, i8, i4096] = cumsum(T11, dim=2, reverse=False)",
        "  T13: f32[i100, i32768] = reshape(T12, new_shape=[100, 32768])",
    ]


@pytest.mark.parametrize(
    ("shape", "dim", "expected"),
    [
        ((1, 1 << 20), 1, 256),  # parts of 4096
        ((1, 1 << 30), 1, 1024),  # not more
        ((100, 1 << 20), 1, 8),  # five would do
        ((1, 32767), 1, None),  # no room for eight parts
        ((1, 65537), 1, None),  # a prime
        ((SMS, 1 << 20), 1, None),  # rows enough
        ((1 << 14, 64), 0, None),  # columns, which blocks share
    ],
)
def test_axes_are_split_where_they_are_long_and_few(
    shape: tuple[int, ...], dim: int, expected: int | None
) -> None:
    assert parts(scanned(*shape, dim=dim), dim) == expected


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.int32])
@pytest.mark.parametrize(("shape", "dim"), [((3, 40960), 1), ((2, 2, 32768), 2)])
def test_values_stay(shape: tuple[int, ...], dim: int, dtype: torch.dtype, reverse: bool) -> None:
    x = (torch.arange(torch.Size(shape).numel()) % 3 - 1).reshape(shape).to(dtype)
    (a,) = like(x)
    program = fusion([a], call("cumsum", a, dim=dim, reverse=reverse))
    made = split_scans(program, SMS)
    assert made is not program
    (got,), (want,) = evaluate(made, [x]), evaluate(program, [x])
    assert got.dtype == want.dtype
    assert torch.equal(got, want)
