"""Which sums are taken apart, what is left, and that results stay what they are."""

from __future__ import annotations

import math
from collections.abc import Callable
from textwrap import dedent

import pytest
import torch

from tests.programs import check, expand, full, fusion, like, total, unsqueeze, whole
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.fold_logs import fold_logs
from thunder_fuser.presegment.sum_apart import sum_apart
from thunder_fuser.runtime.evaluate import evaluate

ROWS, COLUMNS = 37, 64
Build = Callable[[TensorView, TensorView], TensorView]


def along(of_rows: TensorView) -> TensorView:
    """What a row has one of, at each of its elements."""
    return expand(unsqueeze(of_rows, 1), ROWS, COLUMNS)


def scaled(x: TensorView, y: TensorView) -> TensorView:
    """Terms of which a part waits for a sum: x - 2 * sum(x * y) * y."""
    factor = call("mul", along(total(call("mul", x, y), 1)), sc.constant(2.0))
    return call("sub", x, call("mul", factor, y))


def test_a_part_that_waits_for_a_sum_is_summed_without_its_factor() -> None:
    x, y = tensor(DataType.Float, ROWS, COLUMNS), tensor(DataType.Float, ROWS, COLUMNS)
    assert str(sum_apart(fusion([x, y], total(scaled(x, y), 1)))) == dedent("""\
        fusion(T0: f32[i37, i64], T1: f32[i37, i64]) {
          T2: f32[i37, r64] = sum(T0, dims=[1])
          T3: f32[i37, i64] = mul(T0, T1)
          T4: f32[i37, r64] = sum(T3, dims=[1])
          T5: f32[i37] = mul(T4, 2.0)
          T6: f32[i37, r64] = sum(T1, dims=[1])
          T7: f32[i37] = mul(T5, T6)
          T8: f32[i37] = sub(T2, T7)
          return T8
        }""")


APART: dict[str, Build] = {
    "a difference": scaled,
    "negated": lambda x, y: call("neg", call("add", scaled(x, y), y)),
    "beneath another factor": lambda x, y: call("mul", along(total(y, 1)), scaled(x, y)),
    "two that wait": lambda x, y: call("add", scaled(x, y), scaled(y, x)),
    "times a 0-d tensor": lambda x, y: call("mul", full(0.5), call("mul", scaled(x, y), full(3.0))),
    "within a product": lambda x, y: call("mul", x, call("mul", scaled_by(along(total(y, 1))), y)),
    "by how many are largest": lambda x, y: call("mul", y, call("mul", largest(x), x)),
    "its shares": lambda x, y: call("mul", call("div", x, along(scale(y))), y),
    "a part that does not": lambda x, y: call("add", call("exp", scaled_by(y)), scaled(x, y)),
}


def scale(x: TensorView) -> TensorView:
    """A number of each row, far from 0."""
    return total(call("abs", x), 1)


def largest(x: TensorView) -> TensorView:
    """The share of each of the largest elements of a row."""
    found = call("eq", x, along(call("max", x, dims=(1,))))
    count = along(total(call("cast", found, dtype=DataType.Int), 1))
    share = call("div", full(1.0), call("cast", count, dtype=DataType.Float))
    return call("mul", share, call("cast", found, dtype=DataType.Float))


def scaled_by(y: TensorView) -> TensorView:
    return call("mul", y, sc.constant(0.25))


@pytest.mark.parametrize("offset", [0, 1000])
@pytest.mark.parametrize("name", APART)
def test_results_stay_what_they_are(name: str, offset: int) -> None:
    x0, y0 = torch.randn(ROWS, COLUMNS) + offset, torch.randn(ROWS, COLUMNS)
    x, y = like(x0, y0)
    program = fusion([x, y], total(APART[name](x, y), 1))
    made = sum_apart(program)
    assert made.tensors != program.tensors
    (exact,) = evaluate(program, (x0.double(), y0.double()))
    (found,) = evaluate(made, (x0, y0))
    (before,) = evaluate(program, (x0, y0))
    error, allowed = (found.double() - exact).abs().max(), (before.double() - exact).abs().max()
    assert error <= 4 * allowed + 1e-6 * exact.abs().max()


def logarithm(x: TensorView) -> TensorView:
    """That of a softmax."""
    below = call("sub", x, along(call("max", x, dims=(1,))))
    return call("sub", below, along(call("log", total(call("exp", below), 1))))


SHARED: dict[str, Build] = {  # of the logarithms of two softmaxes
    "an entropy": lambda p, q: call("mul", call("exp", p), p),
    "a divergence": lambda p, q: call("mul", call("exp", p), call("sub", p, q)),
    "a cross entropy": lambda p, q: call("mul", q, call("exp", p)),
    "an expectation": lambda p, q: call("mul", call("exp", p), q.expr.tensors[0]),
}


def of_shares(name: str, x: TensorView, y: TensorView) -> Fusion:
    return fusion([x, y], total(SHARED[name](logarithm(x), logarithm(y)), 1))


def doubled(*values: torch.Tensor) -> list[torch.Tensor]:
    return [value.double() for value in values]


@pytest.mark.parametrize("near", [0.0, 1e-3], ids=["apart", "alike"])
@pytest.mark.parametrize("name", SHARED)
def test_sums_of_shares_wait_for_no_sum(name: str, near: float) -> None:
    """Of a divergence of two that are almost alike what both have is not lost in their sums."""
    x0 = 3 * torch.randn(ROWS, COLUMNS)
    y0 = x0 + near * torch.randn(ROWS, COLUMNS) if near else 3 * torch.randn(ROWS, COLUMNS)
    program, wide = (of_shares(name, *like(*values)) for values in ((x0, y0), doubled(x0, y0)))
    made = sum_apart(fold_logs(program))
    sums = [tv for tv in made.tensors if tv.is_of("sum")]
    assert not any(set(topological(tv.producers)) & set(sums) for tv in sums)
    assert len({(tv.producers, tv.expr.attrs) for tv in sums}) == len(sums)
    (exact,) = evaluate(wide, doubled(x0, y0))
    (found,), (before,) = (evaluate(f, (x0, y0)) for f in (made, program))
    error, allowed = (found - exact).abs().max(), (before - exact).abs().max()
    assert error <= 2 * allowed + 1e-7


def centred(x: TensorView) -> TensorView:
    return call("sub", x, call("mul", along(total(x, 1)), sc.constant(1 / COLUMNS)))


LEFT: dict[str, Build] = {
    "a product over a number": lambda x, y: call(
        "mul", x, call("div", call("mul", x, along(total(y, 1))), sc.constant(5.0))
    ),
    "nothing waits": lambda x, y: call("add", call("mul", x, y), y),
    "a mean that is subtracted": lambda x, y: centred(x),  # exact near it, its sum is not
    "weighted distances from one": lambda x, y: call("mul", y, centred(x)),
    "squared distances from one": lambda x, y: call("mul", centred(x), centred(x)),
    "times a 0-d tensor, in all of a row": lambda x, y: call("mul", along(total(x, 1)), full(2.0)),
    "plus a row": lambda x, y: call("add", scaled(x, y), total(y, 0)),
    "times a row": lambda x, y: call("mul", scaled(x, y), total(y, 0)),
    "plus a 0-d tensor": lambda x, y: call("add", scaled(x, y), full(2.0)),
    "a product of two that wait": lambda x, y: call("mul", scaled(x, y), scaled(y, x)),
    "a function of one": lambda x, y: call("exp", scaled(x, y)),
    "one of other rows": lambda x, y: call(
        "add", x, call("mul", expand(unsqueeze(total(x, 0), 0), ROWS, COLUMNS), y)
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_other_sums_are_left(name: str) -> None:
    x, y = tensor(DataType.Float, ROWS, COLUMNS), tensor(DataType.Float, ROWS, COLUMNS)
    program = fusion([x, y], total(LEFT[name](x, y), 1))
    assert str(sum_apart(program)) == str(program)


def test_what_is_rounded_between_is_left() -> None:
    x, y = tensor(DataType.BFloat16, ROWS, COLUMNS), tensor(DataType.BFloat16, ROWS, COLUMNS)
    program = fusion([x, y], total(scaled(x, y), 1))
    assert str(sum_apart(program)) == str(program)


@pytest.mark.parametrize("op", ["add", "mul"])
def test_terms_that_share_much_are_walked_once(op: str) -> None:
    x, y = tensor(DataType.Float, ROWS, COLUMNS), tensor(DataType.Float, ROWS, COLUMNS)
    terms = scaled(x, y) if op == "add" else call("mul", along(total(x, 1)), y)
    for _ in range(60):  # each of the last one twice: 2^60 paths
        terms = call(op, terms, terms)
    (made,) = sum_apart(fusion([x, y], total(terms, 1))).outputs
    assert made.definition is not None
    assert made.definition.op.name in ("sub", "add", "mul")


def test_strict_keeps_what_an_infinite_factor_makes_of_terms_of_both_signs() -> None:
    x, y = whole(ROWS, COLUMNS), whole(ROWS, COLUMNS)
    y[3] = -1.0
    x[3, 5], y[3, 5] = math.inf, 1.0
    tvs = like(x, y)
    check(fusion(tvs, total(scaled(*tvs), 1)), x, y)
