"""Which elements that equal an extremum are counted in the pass that finds it."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.presegment.test_one_pass_exponentials import spread, top
from tests.programs import fusion, like, machine, total
from tests.schedule.segments import floats
from thunder_fuser.analysis.shared_rows import shared_rows
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.one_pass_counts import one_pass_counts
from thunder_fuser.runtime.evaluate import evaluate

SMS, CLUSTER = 132, 8


def in_one_pass(program: Fusion) -> Fusion:
    target = machine(SMS, CLUSTER)
    return one_pass_counts(program, shared_rows(program, target), target)


def equal(x: TensorView, most: TensorView, dim: int = 0) -> TensorView:
    """Which of `x` equal what was found along that dim."""
    return call("eq", x, spread(most, x, dim))


def count(truths: TensorView, dim: int = 0) -> TensorView:
    return total(call("cast", truths, dtype=DataType.Int), dim)


def is_rewritten(x: TensorView, *results: TensorView) -> bool:
    return "maxima" in str(in_one_pass(Fusion((x,), results)))


def test_what_equals_the_largest_is_counted_as_one_reduction_of_the_operand() -> None:
    x = floats(9000, 8)
    most = top(x)
    assert str(in_one_pass(Fusion((x,), (most, count(equal(x, most)))))) == dedent("""\
        fusion(T0: f32[i9000, i8]) {
          T1: f32[r9000, i8] = max(T0, dims=[0])
          T2: i32[r9000, i8] = maxima(T0, dims=[0])
          T3: i64[i8] = cast(T2, dtype=i64)
          return T1, T3
        }""")


def test_only_of_kept_columns_and_rows_a_second_pass_reads_no_memory() -> None:
    for shape, dim, expected in (
        ((512, 4096), 0, True),  # nothing is stored behind it
        ((8, 1 << 20), 1, True),  # blocks share each row
        ((4096, 4096), 1, False),
    ):
        x = floats(*shape)
        assert is_rewritten(x, count(equal(x, top(x, dim), dim), dim)) is expected
    for rows, expected in ((8192, False), (8193, True)):  # which a cluster keeps
        x = floats(rows, 4096)
        truths = equal(x, top(x))
        assert is_rewritten(x, call("mul", truths, spread(count(truths), x))) is expected


def test_others_than_the_operand_of_the_same_extremum_are_counted_behind_it() -> None:
    x, y = floats(9000, 9000), tensor(DataType.Double, 9000, 9000)
    assert not is_rewritten(x, count(equal(call("neg", x), top(x))))
    assert not is_rewritten(x, count(equal(x, top(x, 1), 1)))
    assert not is_rewritten(x, count(equal(x, top(x), 1)))
    assert not is_rewritten(y, count(equal(y, top(y))))


@pytest.mark.parametrize("name", ["max", "min"])
def test_the_value_is_that_of_two_passes(name: str) -> None:
    values = torch.randint(-3, 3, (2000, 6)).float()
    values[:, 0], values[7, 1], values[:, 2], values[8, 3] = 0.0, -torch.inf, torch.inf, torch.nan
    (x,) = like(values)
    found = call(name, x, dims=(0,))
    program = fusion([x], count(equal(x, found)))
    (got,) = evaluate(in_one_pass(program), [values])
    (want,) = evaluate(program, [values])
    torch.testing.assert_close(got, want)
    assert got[3] == 0


def test_what_is_walked_stays_so() -> None:
    x = floats(9, 33)
    most = call("max", x, dims=(0,))
    counted = call("sum", count(equal(x, most)).expr.tensors[0], dims=(0,), walked=9)
    assert "maxima(T0, dims=[0], walked=9)" in str(in_one_pass(fusion([x], most, counted)))
