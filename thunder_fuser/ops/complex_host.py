"""Functions of complex numbers where `cmath` raises: at poles, and beyond the largest double.

    sin(z) = -i sinh(iz), cos(z) = cosh(iz), atan(z) = -i atanh(iz)

so four of them follow from three others.
"""

from __future__ import annotations

import cmath
import math


def exp(z: complex) -> complex:
    try:
        return cmath.exp(z)
    except OverflowError:
        return cmath.rect(math.inf, z.imag)


def cosh(z: complex) -> complex:
    try:
        return cmath.cosh(z)
    except OverflowError:
        return cmath.rect(math.inf, math.copysign(1.0, z.real) * z.imag)


def sinh(z: complex) -> complex:
    try:
        return cmath.sinh(z)
    except OverflowError:
        far = cmath.rect(math.inf, z.imag)
        return complex(math.copysign(1.0, z.real) * far.real, far.imag)


def cos(z: complex) -> complex:
    return cosh(_turned(z))


def sin(z: complex) -> complex:
    return _turned_back(sinh(_turned(z)))


def log(z: complex, of_base: float = 1.0) -> complex:
    """Over the logarithm of a base."""
    found = cmath.log(z) if z else complex(-math.inf, cmath.phase(z))
    return complex(found.real / of_base, found.imag / of_base)


def atanh(z: complex) -> complex:
    return cmath.atanh(z) if z not in (1, -1) else complex(z.real * math.inf, z.imag)


def atan(z: complex) -> complex:
    return _turned_back(atanh(_turned(z)))


def power(a: complex, b: complex) -> complex:
    """Of 0 only a real exponent says how large it becomes."""
    try:
        return complex(a**b)
    except ZeroDivisionError:
        return 0j if b.real > 0 else complex(math.nan if b.imag else math.inf, math.nan)
    except OverflowError:
        return exp(b * cmath.log(a))


def quotient(a: complex, b: complex) -> complex:
    """By zero, that of each part."""
    return a / b if b else complex(_by_zero(a.real, b.real), _by_zero(a.imag, b.real))


def _by_zero(part: float, zero: float) -> float:
    return math.nan if not part else part * math.copysign(math.inf, zero)


def _turned(z: complex) -> complex:
    """i z, part by part: a product would lose the signs of zeros, and infinities."""
    return complex(-z.imag, z.real)


def _turned_back(z: complex) -> complex:
    return complex(z.imag, -z.real)
