"""Functions of complex numbers against torch, where `cmath` raises and beside it."""

from __future__ import annotations

import math
import random

import pytest
import torch

from thunder_fuser.ops import complex_host
from thunder_fuser.ops.host import HOST

FAR = (-1000.0, -1.5, -0.0, 0.0, 0.5, 1000.0)
NAMES = (
    *("acos", "acosh", "asin", "asinh", "atan", "atanh", "cos", "cosh", "exp", "expm1", "exp2"),
    *("log", "log10", "log1p", "log2", "reciprocal", "sin", "sinh", "sqrt", "tan", "tanh"),
)


def agrees(found: complex, wanted: complex) -> bool:
    parts = zip((found.real, found.imag), (wanted.real, wanted.imag), strict=True)
    return all(
        math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-9) or (math.isnan(a) and math.isnan(b))
        for a, b in parts
    )


def of_torch(name: str, z: complex) -> complex:
    found: complex = getattr(torch, name)(torch.tensor(z, dtype=torch.complex128)).item()
    return found


@pytest.mark.parametrize("name", NAMES)
def test_functions_agree_with_torch(name: str) -> None:
    function = HOST[name]
    assert callable(function)
    for _ in range(40):
        z = complex(random.uniform(-4, 4), random.uniform(-4, 4))
        assert agrees(function(z), of_torch(name, z)), (z, function(z), of_torch(name, z))


@pytest.mark.parametrize("name", ["cos", "cosh", "exp", "expm1", "exp2", "sin", "sinh"])
@pytest.mark.parametrize("sign", [-1, 1])
def test_what_no_double_holds_is_infinite(name: str, sign: int) -> None:
    function = HOST[name]
    assert callable(function)
    for z in (sign * (2000 + 1j), sign * (1 + 2000j), sign * complex(2000, -2)):
        assert agrees(function(z), of_torch(name, z)), (z, function(z), of_torch(name, z))


@pytest.mark.parametrize(
    ("name", "z"),
    [
        *[("log", complex(x, y)) for x in (0.0, -0.0) for y in (0.0, -0.0)],
        *[("log2", 0j), ("log10", 0j), ("log1p", -1 + 0j), ("reciprocal", 0j), ("rsqrt", 0j)],
        *[("atan", 1j), ("atan", -1j), ("atanh", 1 + 0j), ("atanh", -1 + 0j)],
    ],
)
def test_poles_are_torchs(name: str, z: complex) -> None:
    function = HOST[name]
    assert callable(function)
    assert agrees(function(z), of_torch(name, z)), (function(z), of_torch(name, z))


@pytest.mark.parametrize("a", [0j, 1 + 0j, 1j, -1 + 2j, 3 - 4j])
@pytest.mark.parametrize("b", [0j, 2 + 0j, 1 - 1j])
def test_quotients_are_torchs(a: complex, b: complex) -> None:
    left, right = (torch.tensor(z, dtype=torch.complex128) for z in (a, b))
    found, wanted = complex_host.quotient(a, b), (left / right).item()
    assert agrees(found, wanted), (found, wanted)


@pytest.mark.parametrize(
    ("a", "b"), [(0j, -1 + 0j), (0j, 1j), (0j, 2 + 1j), (1e200 + 0j, 2 + 1j), (2 + 1j, 1 - 3j)]
)
def test_powers_are_torchs(a: complex, b: complex) -> None:
    left, right = (torch.tensor(z, dtype=torch.complex128) for z in (a, b))
    found, wanted = complex_host.power(a, b), (left**right).item()
    assert agrees(found, wanted), (found, wanted)
