"""The rows' arithmetic on Python numbers against torch in f64 and int64."""

from __future__ import annotations

import math
import random

import pytest
import torch

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.scalar import Number
from thunder_fuser.ops import OPS, Family, OpDef, host
from thunder_fuser.ops.definition import Operand
from thunder_fuser.runtime.dtypes import TORCH_DTYPES
from thunder_fuser.runtime.evaluate import row_function

ROWS = [
    row
    for row in OPS.values()
    if row.family is Family.POINTWISE and row.host and row.name not in ("cast", "complex")
]
PYTHON_TYPES = (DataType.Double, DataType.Int, DataType.Bool)
SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.5, math.inf, -math.inf, math.nan, 750.0)
QUOTIENTS = ("div", "fmod", "mod", "remainder", "gcd")
# Near a root of a function that is a difference (digamma, ndtri) errors are absolute.
LOOSE = 1e-9


@pytest.mark.parametrize(
    ("row", "dtype"), [(r, d) for r in ROWS for d in PYTHON_TYPES if d in r.dtypes], ids=str
)
def test_numbers_fold_to_what_torch_computes(row: OpDef, dtype: DataType) -> None:
    count = len(row.operands)
    result = row.dtype([Operand(dtype, False)] * count)
    for _ in range(60):
        numbers = [_draw(row, dtype, position) for position in range(count)]
        folded = sc.scalar_expr(row, tuple(sc.constant(n, dtype) for n in numbers), result)
        assert isinstance(folded, sc.Constant)
        assert _agree(folded.value, _torch(row, dtype, numbers)), (row.name, numbers, folded.value)


@pytest.mark.parametrize("base", [0.0, -0.0, 1e200, -1e200, math.inf, -math.inf])
@pytest.mark.parametrize("exponent", [-3.0, -2.0, -1.0, -0.5, 2.0, 2.5, 3.0])
def test_powers_without_a_finite_value_are_torchs(base: float, exponent: float) -> None:
    found, wanted = host.pow(base, exponent), _torch(OPS["pow"], DataType.Double, [base, exponent])
    assert _agree(found, wanted), (found, wanted)


@pytest.mark.parametrize("name", ["bitwise_left_shift", "bitwise_right_shift", "pow"])
@pytest.mark.parametrize("distance", [-(2**40), -64, -1, 0, 1, 62, 63, 64, 2**40])
def test_integers_are_torchs_at_any_distance(name: str, distance: int) -> None:
    for number in (0, 1, -1, 2, -2, 3, random.randint(-(2**63), 2**63 - 1)):
        found = sc.evaluate_row(OPS[name], [number, distance], DataType.Int)
        wanted = _torch(OPS[name], DataType.Int, [number, distance])
        assert found == wanted, (number, found, wanted)


@pytest.mark.parametrize("x", [0.0, 5e-324, 1e-300, 1e-9, 0.3, 0.5, 0.99, 1 - 2**-53, 1.0, 2.0])
def test_inverse_error_functions_keep_their_digits(x: float) -> None:
    for number in (x, -x):
        found = host.erfinv(number)
        wanted = _torch(OPS["erfinv"], DataType.Double, [number])
        assert found == pytest.approx(wanted, rel=1e-12, abs=0, nan_ok=True), (found, wanted)
    assert host.erfcinv(5e-324) == math.inf


@pytest.mark.parametrize("name", ["ceil", "floor", "round", "trunc"])
def test_what_becomes_zero_keeps_its_sign(name: str) -> None:
    for x in (-0.0, 0.0, -0.3, 0.3, -0.5):
        found = sc.evaluate_row(OPS[name], [x], DataType.Double)
        wanted = _torch(OPS[name], DataType.Double, [x])
        assert isinstance(found, float)
        assert str(found) == str(wanted)


def _draw(row: OpDef, dtype: DataType, position: int) -> Number:
    low, high = row.sample
    if dtype is DataType.Bool:
        return random.random() < 0.5
    if dtype is DataType.Int:
        number = random.randint(-9, 9)
        if row.name in QUOTIENTS and position == 1:
            return number or 1
        return abs(number) if "shift" in row.name and position == 1 else number
    return random.choice(SPECIAL) if random.random() < 0.3 else random.uniform(low, high)


def _torch(row: OpDef, dtype: DataType, numbers: list[Number]) -> Number:
    wanted = row.operand_dtypes([Operand(dtype, False)] * len(numbers))
    operands = [
        torch.tensor(n, dtype=TORCH_DTYPES[dtype]).to(TORCH_DTYPES[w])
        for n, w in zip(numbers, wanted, strict=True)
    ]
    value: Number = row_function(row)(*operands).item()
    return value


def _agree(found: Number, wanted: Number) -> bool:
    if isinstance(wanted, float) and isinstance(found, float):
        if math.isnan(wanted) or math.isinf(wanted):
            return found == wanted or (math.isnan(found) and math.isnan(wanted))
        return math.isclose(found, wanted, rel_tol=1e-6, abs_tol=LOOSE)
    return found == wanted


def test_the_order_of_sizes_survives_folding() -> None:
    seven, two = sc.constant(7), sc.constant(2)
    assert sc.static_int(sc.ceil_div(seven, two)) == 4
    assert sc.static_int(sc.scalar_expr(OPS["div"], (sc.constant(-7), two), DataType.Int)) == -3
