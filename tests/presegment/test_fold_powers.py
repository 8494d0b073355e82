"""Powers with a small constant exponent are written as torch computes them."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import chain, like, plan_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.presegment import tidy
from thunder_fuser.presegment.fold_powers import fold_powers


def power(dtype: DataType, exponent: Scalar | float) -> Fusion:
    x = tensor(dtype, 4)
    known = sc.constant(exponent) if isinstance(exponent, int | float) else exponent
    return Fusion((x,), (call("pow", x, known),))


FORMS = {
    1.0: "  T1: f32[i4] = set(T0)\n  return T1",
    2.0: "  T1: f32[i4] = mul(T0, T0)\n  return T1",
    3.0: "  T1: f32[i4] = mul(T0, T0)\n  T2: f32[i4] = mul(T1, T0)\n  return T2",
    0.5: "  T1: f32[i4] = sqrt(T0)\n  return T1",
    -0.5: "  T1: f32[i4] = rsqrt(T0)\n  return T1",
    -1.0: "  T1: f32[i4] = reciprocal(T0)\n  return T1",
    -2.0: "  T1: f32[i4] = mul(T0, T0)\n  T2: f32[i4] = reciprocal(T1)\n  return T2",
}


@pytest.mark.parametrize("exponent", FORMS)
def test_a_small_power_is_written_out(exponent: float) -> None:
    folded = fold_powers(power(DataType.Float, exponent))
    assert str(folded) == "fusion(T0: f32[i4]) {\n" + FORMS[exponent] + "\n}"


@pytest.mark.parametrize("op", ["div", "truediv"])
def test_a_quotient_of_one_is_a_reciprocal(op: str) -> None:
    x = tensor(DataType.Float, 4)
    folded = fold_powers(Fusion((x,), (call(op, sc.constant(1.0), x),)))
    assert str(folded) == "fusion(T0: f32[i4]) {\n  T1: f32[i4] = reciprocal(T0)\n  return T1\n}"


@pytest.mark.parametrize(
    ("op", "dtype", "dividend"),
    [("div", DataType.Float, 2.0), ("div", DataType.Int, 1), ("truediv", DataType.Int, 1)],
)
def test_any_other_quotient_stays(op: str, dtype: DataType, dividend: float) -> None:
    program = Fusion((x := tensor(dtype, 4),), (call(op, sc.constant(dividend), x),))
    assert fold_powers(program) is program


def test_an_integer_exponent_counts_as_its_float() -> None:
    assert str(fold_powers(power(DataType.Float, 2))) == str(
        fold_powers(power(DataType.Float, 2.0))
    )


@pytest.mark.parametrize(
    ("dtype", "exponent"),
    [
        (DataType.Float, 4.0),
        (DataType.Float, 0.0),
        (DataType.Float, 0.25),
        (DataType.Int, 2),  # integer powers wrap around in torch's own loop
        (DataType.ComplexFloat, 2.0),
        (DataType.Float, sc.symbol("e", DataType.Double)),
    ],
    ids=str,
)
def test_any_other_power_stays(dtype: DataType, exponent: Scalar | float) -> None:
    program = power(dtype, exponent)
    assert fold_powers(program) is program


def test_a_power_that_converts_its_base_stays() -> None:
    """An integer base with a float exponent gives a float: mul(T0, T0) would be an integer."""
    program = power(DataType.Int, 2.0)
    assert program.outputs[0].dtype is not DataType.Int
    assert fold_powers(program) is program


def test_a_power_of_a_power_is_folded_from_the_inside() -> None:
    x = tensor(DataType.Float, 4)
    inner = call("pow", x, sc.constant(2.0))
    outer = chain(call("pow", inner, sc.constant(0.5)), "neg")
    assert str(tidy(Fusion((x,), (outer,), (Write(inner, x),)))) == dedent("""\
        fusion(T0: f32[i4]) {
          T1: f32[i4] = mul(T0, T0)
          T2: f32[i4] = sqrt(T1)
          T3: f32[i4] = neg(T2)
          T0 <- T1
          return T3
        }""")


def test_a_power_of_one_shares_no_memory(device: torch.device) -> None:
    x = torch.randn(4).to(device)
    program = Fusion((a := like(x)[0],), (call("pow", a, sc.constant(1.0)),))
    (found,) = plan_of(program, x).run(x)
    assert torch.equal(found, x)
    assert found.data_ptr() != x.data_ptr()
