"""Which factors of terms are multiplied behind their sum, and that results stay what they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from textwrap import dedent

import pytest
import torch

from tests.programs import check, expand, full, fusion, like, permute, reshape, total, whole
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.factor_sums import OfRows, factor_sums, of_rows
from thunder_fuser.runtime.evaluate import evaluate

Build = Callable[[TensorView, TensorView], TensorView]
ROWS, COLUMNS = 37, 64


def summed(x: TensorView, *sums: TensorView, beside: TensorView | None = None) -> Fusion:
    """Those sums along rows, and the sum down columns that lets blocks walk them."""
    inputs = [tv for tv in (x, beside) if tv is not None]
    return Fusion(tuple(inputs), (*sums, total(x, 0)))


def along(of_rows: TensorView) -> TensorView:
    return expand(reshape(of_rows, ROWS, 1), ROWS, COLUMNS)


def test_a_factor_that_a_row_has_one_of_is_multiplied_behind_the_sum() -> None:
    x, factor = tensor(DataType.Float, ROWS, COLUMNS), tensor(DataType.Float, ROWS, 1)
    terms = call("mul", expand(factor, ROWS, COLUMNS), call("sin", x))
    program = summed(x, total(call("neg", terms), 1), terms, beside=factor)
    assert str(factor_sums(program)) == dedent("""\
        fusion(T0: f32[i37, i64], T1: f32[i37, b1]) {
          T2: f32[i37] = reshape(T1, new_shape=[37])
          T3: f32[i37, i64] = sin(T0)
          T4: f32[i37, r64] = sum(T3, dims=[1])
          T5: f32[i37] = mul(T2, T4)
          T6: f32[i37] = neg(T5)
          T7: f32[i37, b64] = expand(T1, shape=[37, 64])
          T8: f32[i37, i64] = mul(T7, T3)
          T9: f32[r37, i64] = sum(T0, dims=[0])
          return T6, T8, T9
        }""")


DRAWN: dict[str, Build] = {
    "the second operand": lambda x, f: total(call("mul", x, along(f)), 1),
    "one of two": lambda x, f: total(call("mul", along(f), call("mul", call("exp", x), x)), 1),
    "both": lambda x, f: total(call("mul", call("mul", along(f), x), along(call("cos", f))), 1),
    "computed for each row": lambda x, f: total(call("mul", x, along(call("exp", f))), 1),
    "a sum of the row": lambda x, f: total(call("mul", x, along(total(x, 1))), 1),
    "computed of a number": lambda x, f: total(
        call("mul", x, call("mul", along(f), sc.constant(2.0))), 1
    ),
    "a 0-d tensor": lambda x, f: total(call("mul", x, call("exp", full(0.5))), 1),
    "times a 0-d tensor": lambda x, f: total(call("mul", call("mul", along(f), full(2.0)), x), 1),
    "and a 0-d tensor": lambda x, f: total(call("mul", along(f), full(2.0)), 1),
    "nothing else": lambda x, f: total(call("mul", along(f), along(call("cos", f))), 1),
}


@pytest.mark.parametrize("name", DRAWN)
def test_results_stay_what_they_are(name: str) -> None:
    x0, f0 = torch.randn(ROWS, COLUMNS), torch.randn(ROWS)
    x, f = like(x0, f0)
    program = summed(x, DRAWN[name](x, f), beside=f)
    made = factor_sums(program)
    products = [t for t in made.tensors if t.definition and t.definition.op.name == "mul"]
    assert any(t.shape == (ROWS,) for t in products)
    exact = evaluate(program, (x0.double(), f0.double()))
    for found, wanted in zip(evaluate(made, (x0, f0)), exact, strict=True):
        torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-5, atol=1e-4)


def test_a_factor_of_several_dims_is_met_in_their_order() -> None:
    x0, f0 = torch.randn(6, 7, COLUMNS), torch.randn(6, 7, 1)
    x, f = like(x0, f0)
    product = call("mul", x, expand(f, 6, 7, COLUMNS))
    made = factor_sums(fusion([x, f], total(product, 2), total(reshape(x, 42, COLUMNS), 0)))
    assert "mul(T2, T3)" in str(made)
    found, _ = evaluate(made, (x0, f0))
    torch.testing.assert_close(found, (x0 * f0).sum(2), rtol=1e-5, atol=1e-5)


LEFT: dict[str, Build] = {
    "it differs along rows": lambda x, f: total(call("mul", x, call("sin", x)), 1),
    "a weight": lambda x, f: total(
        call("mul", x, expand(call("sin", total(x, 0)), ROWS, COLUMNS)), 1
    ),
    "it is added": lambda x, f: total(call("add", x, along(f)), 1),
    "a maximum": lambda x, f: call("max", call("mul", x, along(f)), dims=(1,)),
    "rounded terms": lambda x, f: total(
        call(
            "mul",
            call("cast", x, dtype=DataType.BFloat16),
            call("cast", along(f), dtype=DataType.BFloat16),
        ),
        1,
    ),
    "a row": lambda x, f: total(call("mul", x, call("sin", total(x, 0))), 1),
    "a column": lambda x, f: total(call("mul", x, reshape(f, ROWS, 1)), 1),
    "a 0-d tensor of another type": lambda x, f: total(
        call("mul", x, full(2.0, dtype=DataType.BFloat16)), 1
    ),
    "rounded between": lambda x, f: total(
        call("cast", call("cast", along(f), dtype=DataType.Half), dtype=DataType.Float), 1
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_no_such_factor_stays(name: str) -> None:
    x, f = tensor(DataType.Float, ROWS, COLUMNS), tensor(DataType.Float, ROWS)
    program = summed(x, LEFT[name](x, f), beside=f)
    assert factor_sums(program) is program


def test_a_value_per_column_of_a_square_is_no_factor_of_its_rows() -> None:
    x, f = tensor(DataType.Float, 64, 64), tensor(DataType.Float, 64)
    program = fusion([x, f], total(call("mul", x, expand(f, 64, 64)), 1), total(x, 0))
    assert factor_sums(program) is program


def test_values_in_another_order_than_the_rows_stay() -> None:
    x, f = tensor(DataType.Float, 6, 7, COLUMNS), tensor(DataType.Float, 7, 6, 1)
    turned = expand(permute(f, 1, 0, 2), 6, 7, COLUMNS)
    program = fusion([x, f], total(call("mul", x, turned), 2), total(x, 0, 1))
    assert factor_sums(program) is program


def test_rows_that_no_block_walks_stay() -> None:
    x, f = tensor(DataType.Float, ROWS, COLUMNS), tensor(DataType.Float, ROWS)
    program = fusion([x, f], total(call("mul", x, along(f)), 1))
    assert factor_sums(program) is program


def test_sums_of_the_same_rows_know_the_same() -> None:
    x, known = tensor(DataType.Float, ROWS, COLUMNS), dict[object, OfRows]()
    rows = of_rows(total(x, 1), known)
    assert of_rows(total(call("neg", x), 1), known) is rows
    assert of_rows(total(x, 0), known) is not rows


def test_strict_keeps_what_an_infinite_factor_makes_of_terms_of_both_signs() -> None:
    x, factor = whole(ROWS, COLUMNS), whole(ROWS)
    x[3, :2], factor[3] = torch.tensor([1.0, -1.0]), math.inf
    tv, of_rows = like(x, factor)
    check(summed(tv, total(call("mul", tv, along(of_rows)), 1), beside=of_rows), x, factor)
