"""Which exponentials are summed in the pass that finds the maximum above them."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import expand, fusion, like, machine, total, unsqueeze
from tests.schedule.segments import floats
from thunder_fuser.analysis.shared_rows import shared_rows
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.one_pass_exponentials import one_pass_exponentials
from thunder_fuser.runtime.evaluate import evaluate

SMS, CLUSTER = 132, 8


def in_one_pass(program: Fusion, max_cluster: int = 1) -> Fusion:
    target = machine(SMS, max_cluster)
    return one_pass_exponentials(program, shared_rows(program, target), target)


def spread(of: TensorView, x: TensorView, dim: int = 0) -> TensorView:
    return expand(unsqueeze(of, dim), *x.shape)


def top(x: TensorView, dim: int = 0) -> TensorView:
    return call("max", x, dims=(dim,))


def guarded(x: TensorView, dim: int = 0) -> TensorView:
    """The maximum, and 0 where it is infinite."""
    found = top(x, dim)
    is_infinite = call("eq", call("abs", found), sc.constant(float("inf")))
    return call("where", is_infinite, sc.constant(0.0), found)


def below(x: TensorView, most: TensorView, dim: int = 0) -> TensorView:
    """The exponentials of what `x` is below that."""
    return call("exp", call("sub", x, spread(most, x, dim)))


def softmax(x: TensorView, dim: int = 0) -> TensorView:
    terms = below(x, top(x, dim), dim)
    return call("div", terms, spread(total(terms, dim), x, dim))


def is_rewritten(x: TensorView, *results: TensorView) -> bool:
    return "exponentials" in str(in_one_pass(Fusion((x,), results), CLUSTER))


def test_exponentials_are_summed_as_one_reduction_of_the_operand() -> None:
    x = floats(9000, 8)
    program = Fusion((x,), (total(below(x, top(x)), 0),))
    assert str(in_one_pass(program)) == dedent("""\
        fusion(T0: f32[i9000, i8]) {
          T1: f32[r9000, i8] = exponentials(T0, dims=[0])
          T2: f32[r9000, i8] = max(T0, dims=[0])
          T3: f32[i8] = sub(T2, T2)
          T4: f32[i8] = add(T1, T3)
          return T4
        }""")


def test_those_below_a_number_in_place_of_an_infinite_maximum_are_finite() -> None:
    x = floats(9000, 8)
    program = Fusion((x,), (total(below(x, guarded(x)), 0),))
    assert str(in_one_pass(program)) == dedent("""\
        fusion(T0: f32[i9000, i8]) {
          T1: f32[r9000, i8] = exponentials(T0, dims=[0])
          return T1
        }""")


@pytest.mark.parametrize(
    ("shape", "dtype", "expected"),
    [
        ((8192, 4096), DataType.Float, False),  # a cluster keeps them
        ((8193, 4096), DataType.Float, True),
        ((8193, 4096), DataType.Double, False),  # another exponential
        ((1024, 4097), DataType.Float, True),  # packed
        ((1023, 4097), DataType.Float, False),
    ],
)
def test_columns_that_a_block_keeps_are_walked_twice(
    shape: tuple[int, int], dtype: DataType, expected: bool
) -> None:
    x = tensor(dtype, *shape)
    assert is_rewritten(x, softmax(x)) is expected


def test_only_blocks_without_a_cluster_keep_columns_of_which_nothing_is_stored() -> None:
    for rows, expected in ((1536, False), (1537, True)):
        x = floats(rows, 4096)
        assert is_rewritten(x, total(below(x, top(x)), 0)) is expected


@pytest.mark.parametrize(
    ("rows", "columns", "expected"),
    [
        (8, 1 << 20, True),
        (8, 1 << 18, False),  # a cluster holds a row
        (SMS, 1 << 20, False),  # streamed
    ],
)
def test_rows_that_blocks_share_are_read_once_more_to_be_stored(
    rows: int, columns: int, expected: bool
) -> None:
    x = floats(rows, columns)
    assert is_rewritten(x, softmax(x, 1)) is expected


def test_the_maximum_of_other_columns_stays() -> None:
    x = floats(9000, 9000)
    assert not is_rewritten(x, total(below(x, top(x), 1), 0))
    assert not is_rewritten(x, total(below(x, top(call("neg", x))), 0))


@pytest.mark.parametrize("is_guarded", [False, True])
def test_the_value_is_that_of_two_passes(is_guarded: bool) -> None:
    values = torch.randn(9000, 6)
    values[:, 0], values[7, 1], values[8, 2] = -torch.inf, torch.inf, torch.nan
    values[::2, 3] = -torch.inf
    (x,) = like(values)
    program = fusion([x], total(below(x, guarded(x) if is_guarded else top(x)), 0))
    (got,) = evaluate(in_one_pass(program), [values])
    (want,) = evaluate(program, [values])
    torch.testing.assert_close(got, want, equal_nan=True)
