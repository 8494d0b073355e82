"""Which magnitudes are looked for without what their rows are multiplied by."""

from __future__ import annotations

import torch

from tests.programs import chain, expand, fusion, like, total, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.factor_maxima import factor_maxima
from thunder_fuser.runtime.evaluate import evaluate

ROWS, COLUMNS = 9, 40


def spread(of: TensorView, dim: int) -> TensorView:
    return expand(unsqueeze(of, dim), ROWS, COLUMNS)


def magnitudes(x: TensorView, weight: TensorView) -> TensorView:
    """Those of a norm."""
    factor = call("rsqrt", total(call("mul", x, x), 1))
    return call("abs", call("mul", call("mul", x, spread(factor, 1)), spread(weight, 0)))


def inputs() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS)


def test_the_factor_of_a_norm_multiplies_the_largest_of_a_row() -> None:
    x, weight = like(*(values := inputs()))
    largest = call("neg", call("max", magnitudes(x, weight), dims=(1,)))
    written = fusion([x, weight], largest)
    made = factor_maxima(written)
    assert str(made).count(f"f32[i{ROWS}, i{COLUMNS}] = mul(") == 2  # squares, and with weights
    (found,), (expected,) = (evaluate(f, values) for f in (made, written))
    torch.testing.assert_close(found, expected)


def stays(x: TensorView, weight: TensorView, *results: TensorView) -> bool:
    program = Fusion((x, weight), results)
    return factor_maxima(program) is program


def test_one_that_is_returned_or_compared_stays() -> None:
    x, weight = like(*inputs())
    found = magnitudes(x, weight)
    largest = call("max", found, dims=(1,))
    assert stays(x, weight, unsqueeze(largest, 1))
    assert stays(x, weight, call("cast", unsqueeze(largest, 1), dtype=DataType.BFloat16))
    assert stays(x, weight, call("eq", found, spread(largest, 1)))


def test_one_that_elements_come_close_to_stays() -> None:
    x, weight = like(*inputs())
    found = magnitudes(x, weight)
    largest = spread(call("max", found, dims=(1,)), 1)
    share = call("div", found, largest)
    assert stays(x, weight, chain(call("sub", largest, found), "sqrt"))
    assert stays(x, weight, chain(share, "acos"))
    reached = call("ge", share, sc.constant(1.0))
    assert stays(x, weight, total(call("cast", reached, dtype=DataType.Float), 1))


def test_one_that_scales_what_is_rounded_and_limited_goes() -> None:
    x, weight = like(*inputs())
    found = magnitudes(x, weight)
    share = call("round", call("div", found, spread(call("max", found, dims=(1,)), 1)))
    limited = call("where", call("gt", share, sc.constant(7.0)), sc.constant(7.0), share)
    assert not stays(x, weight, call("cast", limited, dtype=DataType.Int8))


def test_others_stay() -> None:
    x, weight = like(*inputs())
    largest = call("max", magnitudes(x, weight).producers[0], dims=(1,))  # of both signs
    assert stays(x, weight, call("neg", largest))
    weighed = call("abs", call("mul", x, spread(weight, 0)))  # that waits for nothing
    assert stays(x, weight, call("neg", call("max", weighed, dims=(1,))))
