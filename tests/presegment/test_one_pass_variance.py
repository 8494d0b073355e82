"""Which variances are summed in the pass that sums their mean."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest
import torch

from tests.programs import expand, fusion, ints, like, machine, reshape, total
from thunder_fuser.analysis.shared_rows import shared_rows
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.one_pass_variance import one_pass_variance
from thunder_fuser.runtime.evaluate import evaluate

SMS = 132


def one_pass(program: Fusion) -> Fusion:
    return one_pass_variance(program, shared_rows(program, machine(SMS)))


def mean(x: TensorView, *dims: int) -> TensorView:
    count = 1
    for dim in dims:
        count *= x.shape[dim]
    return call("truediv", total(x, *dims), sc.constant(count))


def spread(of: TensorView, x: TensorView, *dims: int) -> TensorView:
    """A value per place of the axes that are not in `dims`, for every place of `x`."""
    kept = tuple(k for k in range(x.ndim) if k not in dims)
    return call("broadcast_in_dim", of, shape=ints(x.shape), broadcast_dims=kept)


def squares(x: TensorView, around: TensorView, *dims: int) -> TensorView:
    distance = call("sub", x, around)
    return total(call("mul", distance, distance), *dims)


def deviation(x: TensorView, *dims: int) -> TensorView:
    return squares(x, spread(mean(x, *dims), x, *dims), *dims)


def is_rewritten(x: TensorView, *results: TensorView) -> bool:
    made = one_pass(Fusion((x,), results))
    return any(
        tv.definition and tv.definition.op.name == "squared_deviation" for tv in made.tensors
    )


def test_distances_from_a_mean_are_summed_as_one_reduction_of_the_operand() -> None:
    x = tensor(DataType.Float, 8, 5, 49)
    assert str(one_pass(Fusion((x,), (deviation(x, 0, 2),)))) == dedent("""\
        fusion(T0: f32[i8, i5, i49]) {
          T1: f32[r8, i5, r49] = squared_deviation(T0, dims=[0, 2])
          return T1
        }""")


@pytest.mark.parametrize(
    ("shape", "dims", "expected"),
    [
        ((400, 7), (0,), True),  # down columns
        ((8, 5, 49), (0, 2), True),  # scattered
        ((3, 65536), (1,), True),  # rows that blocks share
        ((131, 65536), (1,), True),
        ((132, 65536), (1,), False),  # a block for each row
        ((3, 65535), (1,), False),  # not long enough
        ((400, 4096), (1,), False),
        ((8, 7), (0,), False),  # a thread keeps its terms
    ],
)
def test_rows_that_a_block_keeps_are_walked_twice(
    shape: tuple[int, ...], dims: tuple[int, ...], expected: bool
) -> None:
    x = tensor(DataType.Float, *shape)
    assert is_rewritten(x, deviation(x, *dims)) is expected


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((671, 4096), DataType.Float, False),
        ((671, 4096), DataType.Double, False),
        ((1536, 4096), DataType.Float, False),
        ((1537, 4096), DataType.Float, True),  # too long
        ((671, 4097), DataType.Float, True),  # odd rows, which are packed
    ],
)
def test_columns_that_a_block_keeps_are_walked_twice(
    shape: tuple[int, int], dtype: DataType, expected: bool
) -> None:
    x = tensor(dtype, *shape)
    variance = deviation(x, 0)
    assert is_rewritten(x, call("mul", x, spread(variance, x, 0))) is expected
    assert is_rewritten(x, variance)  # nothing is stored behind it


NOT_ITS_MEAN: dict[str, Callable[[TensorView], TensorView]] = {
    "another count": lambda x: squares(
        x, spread(call("truediv", total(x, 0), sc.constant(4899)), x, 0), 0
    ),
    "of another tensor": lambda x: squares(x, spread(mean(call("neg", x), 0), x, 0), 0),
    "over other axes": lambda x: squares(x, spread(mean(x, 1), x, 1), 0),
    "a maximum": lambda x: squares(x, spread(call("max", x, dims=(0,)), x, 0), 0),
    "not spread": lambda x: squares(x, call("neg", x), 0),
    "no square": lambda x: total(call("sub", x, spread(mean(x, 0), x, 0)), 0),
}


@pytest.mark.parametrize("name", NOT_ITS_MEAN)
def test_what_is_no_distance_from_its_own_mean_stays(name: str) -> None:
    x = tensor(DataType.Float, 4900, 4)
    assert not is_rewritten(x, NOT_ITS_MEAN[name](x))


def test_a_mean_of_other_columns_stays() -> None:
    """A square plane, whose means along one axis fit the other one as well."""
    x = tensor(DataType.Float, 40, 40)
    across = call("broadcast_in_dim", mean(x, 0), shape=ints([40, 40]), broadcast_dims=(0,))
    assert not is_rewritten(x, squares(x, across, 0))


def test_however_the_mean_is_spread() -> None:
    x = tensor(DataType.Float, 400, 6)
    around = expand(reshape(mean(x, 0), 1, 6), 400, 6)
    assert is_rewritten(x, squares(x, around, 0))


@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Half, DataType.Int])
def test_other_types_are_rounded_as_the_trace_says(dtype: DataType) -> None:
    x = tensor(dtype, 400, 6)
    assert not is_rewritten(x, deviation(x, 0))


def test_the_value_is_that_of_two_passes() -> None:
    values = torch.randn(8, 5, 49, dtype=torch.float64) + 100
    (x,) = like(values)
    program = fusion([x], deviation(x, 0, 2), mean(x, 0, 2))
    for got, want in zip(
        evaluate(one_pass(program), [values]),
        evaluate(program, [values]),
        strict=True,
    ):
        torch.testing.assert_close(got, want)
