"""Elementwise ops of one operand. A new one is one line here and nothing anywhere else."""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.definition import Cost, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import boolean, each, fixed, floating, real, same
from thunder_fuser.ops.dtype_sets import ALL, BITS, COMPLEX, FLOATS, INEXACT, NUMBERS, REAL, STORED
from thunder_fuser.ops.dtype_sets import REAL_NUMBERS as ORDERED

_X = (Param("x", Kind.TENSOR_OR_SCALAR),)
Dtypes = frozenset[DataType]
Range = tuple[float, float]

_WIDE: Range = (-40.0, 40.0)  # where exp, sinh and the like neither overflow nor vanish
_UNIT: Range = (-0.999, 0.999)
_POSITIVE: Range = (0.01, 90.0)


def _exact(
    name: str,
    cuda: str,
    host: str,
    prim: str,
    dtypes: Dtypes,
    is_step: bool = False,
    wraps: str = "",
) -> OpDef:
    """An op that keeps the operand's type and commits no error beyond its rounding."""
    return OpDef(
        name,
        Family.POINTWISE,
        _X,
        same,
        cuda,
        name,
        host,
        (prim,) if prim else (),
        dtypes=dtypes,
        wraps=wraps,
        is_step=is_step,
    )


def _test(name: str, cuda: str, host: str = "", prim: str = "", dtypes: Dtypes = ALL) -> OpDef:
    """A predicate."""
    prims = (prim,) if prim else ()
    return OpDef(name, Family.POINTWISE, _X, boolean, cuda, name, host, prims, dtypes=dtypes)


def _math(
    name: str,
    host: str = "",
    prim: str = "",
    *,
    cuda: str = "",
    torch: str = "",
    dtypes: Dtypes = ALL,
    sample: Range = (-4.0, 4.0),
    ulps: float = 4.0,
    fast: str = "",
    fast_in_sums: bool = False,
    near: str = "",
    within: float = 0.0,
    rises: bool = False,
) -> OpDef:
    """A function of real or complex analysis: integers become f32."""
    return OpDef(
        name,
        Family.POINTWISE,
        _X,
        floating,
        cuda or f"tf::{name}({{0}})",
        torch or name,
        host or f"{name}({{0}})",
        (prim,) if prim else (),
        cost=Cost.EXPENSIVE,
        dtypes=dtypes,
        sample=sample,
        operands_as=each(floating),
        fast=fast,
        fast_in_sums=fast_in_sums,
        near=near,
        within=within,
        rises=rises,
        ulps=ulps,
    )


def _copy(name: str, *prims: str, cost: Cost = Cost.FREE) -> OpDef:
    return OpDef(
        name, Family.POINTWISE, _X, same, "{0}", "clone", "{0}", prims, cost=cost, dtypes=STORED
    )


def _part(name: str, host: str, prim: str, dtypes: Dtypes) -> OpDef:
    """Real and imaginary part."""
    return OpDef(
        name, Family.POINTWISE, _X, real, f"tf::{name}({{0}})", name, host, (prim,), dtypes=dtypes
    )


_LOGISTIC = "tf::reciprocal_from_one({t}(1) + tf::exp(-{0}))"
_FAST_LOGISTIC = "tf::fast_reciprocal({t}(1) + tf::fast_exp(-{0}))"

_SIGN = "{t}({0} > {t}(0)) - {t}({0} < {t}(0))"  # two comparisons that make numbers, and no words

# The last one is what no reader computes anew: it lies in memory in an order that they want.
COPIES = (
    _copy("set", "CLONE", "SHALLOW_COPY"),
    _copy("segment_set"),
    _copy("copy", cost=Cost.NEVER),
)

ARITHMETIC = (
    OpDef(
        "abs", Family.POINTWISE, _X, real, "tf::abs({0})", "abs", "abs({0})", ("ABS",),
        dtypes=NUMBERS, ulps=4.0,
    ),
    _exact("neg", "-{0}", "-{0}", "NEG", NUMBERS, wraps="tf::wrapped_sub(0, {0})"),
    _exact("ceil", "tf::ceil({0})", "ceil({0})", "CEIL", ORDERED, True),
    _exact("floor", "tf::floor({0})", "floor({0})", "FLOOR", ORDERED, True),
    _exact("round", "tf::round({0})", "round({0})", "ROUND", ORDERED, True),
    _exact("trunc", "tf::trunc({0})", "trunc({0})", "TRUNC", ORDERED, True),
    _exact("frac", "{0} - tf::trunc({0})", "fmod({0}, 1.0)", "", FLOATS, True),
    _exact("relu", "{0} < {t}(0) ? {t}(0) : {0}", "maximum({0}, 0)", "", ORDERED),
    _exact("sign", _SIGN, "({0} > 0) - ({0} < 0)", "SIGN", REAL, True),
    _exact("bitwise_not", "tf::bitwise_not({0})", "bitwise_not({0})", "BITWISE_NOT", BITS),
    _part("real", "({0}).real", "REAL", ALL),
    _part("imag", "({0}).imag", "IMAG", COMPLEX),
    OpDef(  # 32 bits that order as the values do: the zeros are equal, and NaN is above all
        "order_key", Family.POINTWISE, _X, fixed(DataType.Int), "tf::order_key({0})",
        "tf_order_key({0})", dtypes=FLOATS - {DataType.Double},
        operands_as=each(fixed(DataType.Float)), is_step=True,
    ),
)  # fmt: skip

TESTS = (
    _test("logical_not", "!{0}", "not {0}"),
    _test("signbit", "tf::signbit({0})", "math.copysign(1.0, {0}) < 0", "SIGNBIT", REAL),
    _test("isfinite", "tf::isfinite({0})", "cmath.isfinite({0})", "ISFINITE"),
    _test("isinf", "tf::isinf({0})", "cmath.isinf({0})"),
    _test("isnan", "tf::isnan({0})", "{0} != {0}"),
    _test("isneginf", "tf::isneginf({0})", "{0} == -math.inf", dtypes=REAL),
    _test("isposinf", "tf::isposinf({0})", "{0} == math.inf", dtypes=REAL),
    _test("isreal", "tf::isreal({0})", "({0}).imag == 0"),
)

# lgamma, digamma: drawn where they have no zero; near one torch loses digits.
FUNCTIONS = (
    _math("acos", prim="ACOS", sample=_UNIT),
    _math("acosh", prim="ACOSH", sample=(1.001, 90.0)),
    _math("asin", prim="ASIN", sample=_UNIT),
    _math("asinh", prim="ASINH", sample=_WIDE),
    _math("atan", prim="ATAN", sample=_WIDE),
    _math("atanh", prim="ATANH", sample=_UNIT),
    _math("cos", prim="COS"),
    _math("cosh", prim="COSH", sample=_WIDE),
    _math("exp", prim="EXP", sample=_WIDE, fast="tf::fast_exp({0})"),
    _math("exp2", prim="EXP2", sample=_WIDE, fast="tf::fast_exp2({0})"),
    _math("expm1", prim="EXPM1"),
    _math("erf", prim="ERF", dtypes=REAL, fast="tf::fast_erf({0})"),
    _math("erfc", prim="ERFC", dtypes=REAL, ulps=16.0),
    _math("erfinv", prim="ERFINV", dtypes=REAL, sample=_UNIT, ulps=16.0),
    _math("erfcinv", prim="ERFCINV", torch="tf_erfcinv({0})", dtypes=REAL, sample=(0.01, 1.99),
          ulps=16.0),
    _math("lgamma", prim="LGAMMA", dtypes=REAL, sample=(2.5, 30.0), ulps=16.0),
    _math("digamma", prim="DIGAMMA", dtypes=REAL, sample=(2.0, 30.0), ulps=32.0),
    _math("ndtri", prim="NDTRI", torch="torch.special.ndtri({0})",
          dtypes=REAL - {DataType.Half, DataType.BFloat16}, sample=(0.01, 0.99), ulps=32.0),
    _math("log", prim="LOG", sample=_POSITIVE),
    _math("log10", prim="LOG10", sample=_POSITIVE),
    _math("log1p", prim="LOG1P", sample=(-0.9, 90.0), fast="tf::fast_log1p({0})"),
    _math("log2", prim="LOG2", sample=_POSITIVE),
    _math("ndtr", "erfc(-{0} * 0.7071067811865476) / 2",
          torch="torch.special.ndtr({0}.double()).to({0}.dtype)",
          dtypes=FLOATS, sample=(-1.0, 4.0), ulps=256.0),
    _math("reciprocal", prim="RECIPROCAL", cuda="{t}(1) / {0}",
          fast="tf::fast_reciprocal({0})"),
    _math("rsqrt", prim="RSQRT", sample=(0.1, 9.0)),
    _math("sigmoid", cuda=_LOGISTIC, ulps=8.0, fast=_FAST_LOGISTIC,
          fast_in_sums=True),
    _math("silu", "{0} * sigmoid({0})", cuda=f"{{0}} * {_LOGISTIC}",
          torch="torch.nn.functional.silu({0})", dtypes=INEXACT, ulps=8.0,
          fast=f"{{0}} * {_FAST_LOGISTIC}", fast_in_sums=True),
    _math("sin", prim="SIN"),
    _math("sinh", prim="SINH", sample=_WIDE),
    _math("sqrt", prim="SQRT", sample=_POSITIVE, fast="tf::fast_sqrt({0})"),
    _math("tan", prim="TAN", ulps=8.0),
    _math("tanh", prim="TANH", fast="tf::fast_tanh({0})", near="tf::near_tanh({0})", within=0.6,
          rises=True),
)  # fmt: skip

UNARY = (*COPIES, *ARITHMETIC, *TESTS, *FUNCTIONS)
