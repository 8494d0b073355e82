"""What integers give is torch's: numbers count in the type of the tensor beside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.devices import here
from tests.executor.jitted import check, jit

pytestmark = pytest.mark.usefixtures("device")
Program = Callable[..., Any]
SIGNED = (torch.int64, torch.int32, torch.int16, torch.int8)

LIMITED: dict[str, Program] = {
    "hardtanh": F.hardtanh,
    "of whole numbers": lambda x: F.hardtanh(x, 1, 3),
    "of fractions": lambda x: F.hardtanh(x, min_val=-3.5, max_val=2.5),
    "hardtanh_": lambda x: F.hardtanh_(x, -3.5, 2.5),
    "in place": lambda x: torch.nn.Hardtanh(-2, 2, inplace=True)(x),
    "relu6": F.relu6,
    "threshold": lambda x: F.threshold(x, 1.5, 7.5),
    "below zero": lambda x: F.threshold(x, -2.5, -7.5),
    "threshold_": lambda x: F.threshold_(x, 1.5, 7.5),
}


@pytest.mark.parametrize("dtype", SIGNED)
@pytest.mark.parametrize("name", LIMITED)
def test_limits_of_integers_are_integers(name: str, dtype: torch.dtype) -> None:
    check(lambda x: LIMITED[name](x), torch.randint(-9, 9, (5, 7), dtype=dtype))


def test_limits_below_zero_of_bytes_are_refused() -> None:
    x = torch.arange(9, dtype=torch.uint8)
    for program in (F.hardtanh, lambda x: F.hardtanh(x, -1, 3)):
        with pytest.raises(RuntimeError):
            program(x)
        with pytest.raises(RuntimeError, match=r"hardtanh of uint8 between -1.*x\.int\(\)"):
            jit(program)(x)
    check(lambda x: F.hardtanh(x, 2.5, 5.5), x)


def _divided_in_place(x: torch.Tensor) -> torch.Tensor:
    x.floor_divide_(-3)
    return x.div_(-100, rounding_mode="floor")


QUOTIENTS: dict[str, Program] = {
    "//": lambda x: x // -3,
    "the number divided": lambda x: -3 // (x | 1),
    "div": lambda x: torch.div(x, -100, rounding_mode="floor"),
    "divide": lambda x: torch.divide(x, -100, rounding_mode="floor"),
    "remainder": lambda x: torch.remainder(x, -3),
    "%": lambda x: x % -3 + 100 % (x | 1),
    "by signed": lambda x: x // (x.to(torch.int8) | 1),
    "by bytes": lambda x: x.to(torch.int8) // (x | 1),
    "by a fraction": lambda x: x // -2.5,
    "in place": _divided_in_place,
}


@pytest.mark.parametrize("name", QUOTIENTS)
def test_bytes_are_divided_as_naturals(name: str) -> None:
    check(lambda x: QUOTIENTS[name](x), torch.randint(0, 256, (5, 7), dtype=torch.uint8))


def test_remainders_of_floats_and_their_gradients() -> None:
    x, y = (torch.randn(5, 7, requires_grad=True) for _ in "xy")
    check(lambda x, y: (x % 0.75 + x % y, (2.5 % y).detach()), x, y)


def thirds(x: torch.Tensor) -> torch.Tensor:
    return x // 3 * 2


def rests(x: torch.Tensor) -> torch.Tensor:
    return x % 3 * 2


@pytest.mark.parametrize(
    ("program", "symbol", "line"),
    [(thirds, "floor_divide", "return x // 3 * 2"), (rests, "remainder", "return x % 3 * 2")],
)
def test_operators_keep_their_line(program: Program, symbol: str, line: str) -> None:
    jfn = jit(program)
    jfn(torch.randint(0, 9, (4, 5), device=here()))
    traced = str(thunder.last_traces(jfn)[0]).splitlines()
    place = next(k for k, text in enumerate(traced) if f"ltorch.{symbol}(" in text)
    assert line in traced[place - 1]


BESIDE: dict[str, Program] = {
    "+": lambda x, n: x + n,
    "-": lambda x, n: n - x,
    "*": lambda x, n: x * n,
    "//": lambda x, n: x // n,
    "%": lambda x, n: x % n,
    "pow": torch.pow,
    "bits": torch.bitwise_and,
    "maximum": torch.maximum,
    "where": lambda x, n: torch.where(x > 3, x, n),
    "its sum": lambda x, n: x * x.sum() + n,
}


@pytest.mark.parametrize("evaluator", [True, False])
@pytest.mark.parametrize("number", [*SIGNED, torch.uint8])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8])
@pytest.mark.parametrize("name", BESIDE)
def test_a_number_has_the_type_of_the_8_bits_beside_it(
    name: str, dtype: torch.dtype, number: torch.dtype, evaluator: bool
) -> None:
    x = torch.randint(0, 256, (5, 7)).to(dtype)
    check(BESIDE[name], x, torch.tensor(117, dtype=number), fuser_evaluator=evaluator)
