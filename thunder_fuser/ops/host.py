"""The functions that `OpDef.host` expressions may call: torch's answers on Python numbers.

Where Python's `math` raises (a logarithm of -1, exp(1000), a division by zero) torch has an answer
of IEEE 754, and so have these.
"""

from __future__ import annotations

import builtins
import cmath
import math
from collections.abc import Callable
from statistics import NormalDist

from thunder_fuser.ops import complex_host
from thunder_fuser.ops.stored import wrapped

Real = int | float
Number = int | float | complex
Function = Callable[..., Number]

_ALL_BITS = (1 << 64) - 1


def div(a: Number, b: Number) -> Number:
    """Truncating for two integers, true division otherwise."""
    if isinstance(a, int) and isinstance(b, int):
        if b == 0:
            raise ZeroDivisionError(f"integer division of {a} by zero")
        quotient = abs(a) // abs(b)
        return quotient if (a < 0) == (b < 0) else -quotient
    return truediv(a, b)


def truediv(a: Number, b: Number) -> Number:
    """IEEE division: x / 0 is an infinity of the right sign, 0 / 0 is NaN."""
    if isinstance(a, complex) or isinstance(b, complex):
        return complex_host.quotient(complex(a), complex(b))
    if b != 0:
        return a / b
    if a == 0 or math.isnan(a):
        return math.nan
    return math.copysign(math.inf, a) * math.copysign(1.0, b)


def pow(a: Number, b: Number) -> Number:
    """Integers stay integers; a negative base with a fractional exponent is NaN."""
    if isinstance(a, int) and isinstance(b, int):
        return _power(a, b)
    if isinstance(a, complex) or isinstance(b, complex):
        return complex_host.power(complex(a), complex(b))
    try:
        return math.pow(a, b)
    except ValueError:
        if a != 0:
            return math.nan
    except OverflowError:
        pass
    return math.copysign(math.inf, a) if b % 2 == 1 else math.inf  # an odd power keeps the sign


def _power(a: int, b: int) -> int:
    """In 64 bits; a negative exponent truncates to 0, 1 or -1."""
    if b >= 0:
        return wrapped(builtins.pow(a, b, _ALL_BITS + 1))
    return (a if b & 1 else 1) if a in (1, -1) else 0


def remainder(a: Real, b: Real) -> Real:
    """The remainder with the sign of the divisor, exact as fmod is."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    left = _fmod(a, b)
    return left + b if left != 0 and (left < 0) != (b < 0) else left


def fmod(a: Real, b: Real) -> Real:
    """The remainder with the sign of the dividend."""
    if isinstance(a, int) and isinstance(b, int):
        return a - b * int(div(a, b).real)
    return _fmod(a, b)


def _fmod(a: Real, b: Real) -> float:
    return math.fmod(a, b) if b != 0 and math.isfinite(a) else math.nan


def maximum(a: Real, b: Real) -> Real:
    """NaN if either is NaN."""
    return a if math.isnan(a) or a >= b else b


def minimum(a: Real, b: Real) -> Real:
    """NaN if either is NaN."""
    return a if math.isnan(a) or a <= b else b


def bitwise_not(x: int) -> int:
    """Of a bool, its negation."""
    return not x if isinstance(x, bool) else ~x


def left_shift(a: int, b: int) -> int:
    """In 64 bits; 0 for a distance outside [0, 64)."""
    return wrapped(a << b) if 0 <= b < 64 else 0


def right_shift(a: int, b: int) -> int:
    """Copies of the sign come in from the left, nothing else for a distance outside [0, 64)."""
    return a >> (b if 0 <= b < 64 else 63)


def logical_right_shift(a: int, b: int) -> int:
    """Of the 64 bits of `a`, zeros coming in from the left; 0 for a distance outside [0, 64)."""
    return wrapped((a & _ALL_BITS) >> b) if 0 <= b < 64 else 0


def clamp(x: Real, low: Real, high: Real) -> Real:
    return minimum(maximum(x, low), high)


def lerp(start: Number, end: Number, weight: Number) -> Number:
    """Exact at both ends: two branches that meet at |weight| = 0.5."""
    if abs(weight) < 0.5:
        return start + weight * (end - start)
    return end - (end - start) * (1 - weight)


def whole(function: Callable[[float], int]) -> Callable[[Real], Real]:
    """Rounding functions leave infinities and NaN as they are and keep the operand's type, and the
    sign of what becomes zero."""

    def rounded(x: Real) -> Real:
        if isinstance(x, int) or not math.isfinite(x):
            return x
        return math.copysign(float(function(x)), x)

    return rounded


def sigmoid(x: Number) -> Number:
    return truediv(1.0, 1.0 + _exp(-x))


def reciprocal(x: Number) -> Number:
    return truediv(1.0, x)


def rsqrt(x: Number) -> Number:
    return truediv(1.0, _sqrt(x))


def erfcinv(x: Real) -> float:
    return -ndtri(x / 2) / math.sqrt(2)


def ndtri(p: Real) -> float:
    """The quantile of the normal distribution."""
    if 0 < p < 1:
        return NormalDist().inv_cdf(p)
    return -math.inf if p == 0 else math.inf if p == 1 else math.nan


def erfinv(x: Real) -> float:
    """Near 0 by a quantile, whose error is absolute, and a step of Newton's, whose is not."""
    if not abs(x) < 0.5:
        return math.copysign(erfcinv(1 - abs(x)), x)
    near = ndtri((1 + x) / 2) / math.sqrt(2)
    return near - (math.erf(near) - x) * math.exp(near * near) * math.sqrt(math.pi) / 2


def digamma(x: Real) -> float:
    """Recurrence up to 10, then the asymptotic series (Abramowitz and Stegun 6.3.5, 6.3.18)."""
    x = float(x)
    if x == -math.inf or (x <= 0 and x == math.floor(x)):
        return math.nan if x else math.copysign(math.inf, -x)
    if x < 0:
        return digamma(1 - x) - math.pi / math.tan(math.pi * (x % 1))
    shift = 0.0
    while x < 10:
        shift += 1 / x
        x += 1
    z = 1 / (x * x)
    far = 1 / 132 - z * (691 / 32760 - z / 12)
    tail = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * far))))
    return math.log(x) - 0.5 / x - tail - shift


def atanh(x: Number) -> Number:
    if isinstance(x, complex):
        return complex_host.atanh(x)
    if abs(x) < 1:
        return math.atanh(x)
    return math.copysign(math.inf, x) if abs(x) == 1 else math.nan


def lgamma(x: Real) -> float:
    """Infinite at 0 and the negative integers."""
    is_pole = x == -math.inf or (x <= 0 and x == math.floor(x))
    return math.inf if is_pole or x > _MAX_LGAMMA else math.lgamma(x)


_MAX_LGAMMA = 2.5e305  # above it the result is not a finite double


def _analytic(
    real: Callable[[float], float], complex_: Callable[[complex], complex] | None = None
) -> Function:
    """`real` with NaN outside its domain, infinity on overflow; `complex_` for complex numbers."""

    def function(x: Number) -> Number:
        if isinstance(x, complex):
            if complex_ is None:
                raise TypeError(f"{real.__name__} is not defined on the complex number {x}")
            try:
                return complex_(x)
            except ValueError:
                return complex(math.nan, math.nan)
        try:
            return real(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.copysign(math.inf, x) if real is math.sinh else math.inf

    return function


def _logarithm(real: Callable[[float], float], complex_: Callable[[complex], complex]) -> Function:
    inner = _analytic(real, complex_)
    pole = -1 if real is math.log1p else 0
    return lambda x: -math.inf if x == pole and not isinstance(x, complex) else inner(x)


def magnitude(x: Number) -> Real:
    try:
        return abs(x)
    except OverflowError:
        return math.inf


_exp = _analytic(math.exp, complex_host.exp)
_sqrt = _analytic(math.sqrt, cmath.sqrt)


def _of_complex(name: str) -> Callable[[complex], complex]:
    found: Callable[[complex], complex] = getattr(complex_host, name, getattr(cmath, name))
    return found


_PLAIN = "acos acosh asin asinh atan cos cosh exp sin sinh sqrt tan tanh"
_REAL_ONLY = "erf erfc"

HOST: dict[str, object] = {
    "math": math,
    "cmath": cmath,
    "abs": magnitude,
    **{n: _analytic(getattr(math, n), _of_complex(n)) for n in _PLAIN.split()},
    **{n: _analytic(getattr(math, n)) for n in _REAL_ONLY.split()},
    "expm1": _analytic(math.expm1, lambda z: complex_host.exp(z) - 1),
    "exp2": _analytic(lambda x: math.pow(2.0, x), lambda z: complex_host.power(2.0, z)),
    "log": _logarithm(math.log, complex_host.log),
    "log10": _logarithm(math.log10, lambda z: complex_host.log(z, math.log(10))),
    "log2": _logarithm(math.log2, lambda z: complex_host.log(z, math.log(2))),
    "log1p": _logarithm(math.log1p, lambda z: complex_host.log(1 + z)),
    "ceil": whole(math.ceil),
    "floor": whole(math.floor),
    "round": whole(round),
    "trunc": whole(math.trunc),
    **{
        f.__name__: f
        for f in (
            *(
                div,
                truediv,
                pow,
                remainder,
                fmod,
                maximum,
                minimum,
                clamp,
                lerp,
                bitwise_not,
                left_shift,
                right_shift,
                logical_right_shift,
            ),
            *(sigmoid, reciprocal, rsqrt, erfcinv, erfinv, ndtri, digamma, atanh, lgamma),
        )
    },
}
