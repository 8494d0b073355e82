"""Elementwise ops of two operands. A new one is one line here and nothing anywhere else."""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.definition import DtypeRule, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import boolean, each, fixed, floating, promoted
from thunder_fuser.ops.dtype_sets import ALL, BITS, FLOATS, INTEGERS, NUMBERS, REAL
from thunder_fuser.ops.dtype_sets import REAL_NUMBERS as ORDERED

_AB = (Param("a", Kind.TENSOR_OR_SCALAR), Param("b", Kind.TENSOR_OR_SCALAR))
Dtypes = frozenset[DataType]


def _binary(
    name: str,
    cuda: str,
    host: str,
    prim: str = "",
    dtypes: Dtypes = ALL,
    *,
    rule: DtypeRule = promoted,
    torch: str = "",
    strict: str = "",
    wraps: str = "",
    fast: str = "",
    known: tuple[str, str, str, str, str] = ("", "", "", "", ""),
    ulps: float = 0.0,
    is_step: bool = False,
) -> OpDef:
    """Both operands and the result are of the type that `rule` gives."""
    return OpDef(
        name,
        Family.POINTWISE,
        _AB,
        rule,
        cuda,
        torch or name,
        host,
        (prim,) if prim else (),
        dtypes=dtypes,
        operands_as=each(rule),
        strict=strict,
        wraps=wraps,
        is_step=is_step,
        fast=fast,
        by_number=known[0],
        fast_by_number=known[1],
        by_row=known[2],
        fast_by_row=known[3],
        fast_from_one=known[4],
        ulps=ulps,
    )


def _compare(name: str, sign: str, prim: str, dtypes: Dtypes = REAL) -> OpDef:
    """Operands meet in their promoted type."""
    text = f"{{0}} {sign} {{1}}"
    return OpDef(
        name,
        Family.POINTWISE,
        _AB,
        boolean,
        text,
        name,
        text,
        (prim,),
        dtypes=dtypes,
        operands_as=each(promoted),
    )


def _logical(name: str, cuda: str, host: str) -> OpDef:
    """Each operand is tested for zero in its own type."""
    return OpDef(name, Family.POINTWISE, _AB, boolean, cuda, name, host)


_FAST_QUOTIENT = "tf::fast_divide({0}, {1})"
_KNOWN_DIVISOR = (
    "tf::divided_by({0}, {1})",
    "{0} * ({t}(1) / {1})",
    "tf::divided_by_row({0}, {1})",
    "tf::fast_divided_by_row({0}, {1})",
    "{0} * tf::fast_reciprocal({1})",
)

ARITHMETIC = (
    _binary("add", "{0} + {1}", "{0} + {1}", "ADD", wraps="tf::wrapped_add({0}, {1})"),
    _binary("sub", "{0} - {1}", "{0} - {1}", "SUB", NUMBERS, wraps="tf::wrapped_sub({0}, {1})"),
    _binary("mul", "{0} * {1}", "{0} * {1}", "MUL", strict="tf::mul_rn({0}, {1})",
            wraps="tf::wrapped_mul({0}, {1})", ulps=4.0),
    _binary("div", "tf::div({0}, {1})", "div({0}, {1})", "DIV", NUMBERS,
            torch="tf_div({0}, {1})", fast=_FAST_QUOTIENT, known=_KNOWN_DIVISOR, ulps=4.0),
    _binary("truediv", "{0} / {1}", "truediv({0}, {1})", rule=floating, torch="true_divide",
            fast=_FAST_QUOTIENT, known=_KNOWN_DIVISOR, ulps=4.0),
    _binary("pow", "tf::pow({0}, {1})", "pow({0}, {1})", "POW", NUMBERS, ulps=16.0),
    _binary("atan2", "tf::atan2({0}, {1})", "math.atan2({0}, {1})", "ATAN2", REAL,
            rule=floating, ulps=4.0),
    _binary("fmod", "tf::fmod({0}, {1})", "fmod({0}, {1})", "FMOD", ORDERED,
            is_step=True),
    _binary("mod", "tf::fmod({0}, {1})", "fmod({0}, {1})", "", ORDERED, torch="fmod",
            is_step=True),
    _binary("remainder", "tf::remainder({0}, {1})", "remainder({0}, {1})", "REMAINDER", ORDERED,
            is_step=True),
    _binary("maximum", "tf::maximum({0}, {1})", "maximum({0}, {1})", "MAXIMUM", REAL),
    _binary("minimum", "tf::minimum({0}, {1})", "minimum({0}, {1})", "MINIMUM", REAL),
    _binary("nextafter", "tf::nextafter_in<{s}>({0}, {1})", "math.nextafter({0}, {1})",
            "NEXTAFTER", FLOATS),
    _binary("gcd", "tf::gcd({0}, {1})", "math.gcd({0}, {1})", "", INTEGERS),
)  # fmt: skip

COMPARISONS = (
    _compare("eq", "==", "EQ", ALL),
    _compare("ne", "!=", "NE", ALL),
    _compare("ge", ">=", "GE"),
    _compare("gt", ">", "GT"),
    _compare("le", "<=", "LE"),
    _compare("lt", "<", "LT"),
)

LOGIC = (
    _logical("logical_and", "{0} && {1}", "bool({0}) and bool({1})"),
    _logical("logical_or", "{0} || {1}", "bool({0}) or bool({1})"),
    _binary("bitwise_and", "{0} & {1}", "{0} & {1}", "BITWISE_AND", BITS),
    _binary("bitwise_or", "{0} | {1}", "{0} | {1}", "BITWISE_OR", BITS),
    _binary("bitwise_xor", "{0} ^ {1}", "{0} ^ {1}", "BITWISE_XOR", BITS),
    _binary("bitwise_left_shift", "tf::shift_left({0}, {1})", "left_shift({0}, {1})",
            "BITWISE_LEFT_SHIFT", INTEGERS),
    _binary("bitwise_right_shift", "tf::shift_right({0}, {1})", "right_shift({0}, {1})",
            "BITWISE_RIGHT_SHIFT", INTEGERS),
    _binary("logical_right_shift", "tf::shift_right_zero({0}, {1})",
            "logical_right_shift({0}, {1})", "", INTEGERS,
            torch="tf_logical_right_shift({0}, {1})"),
)  # fmt: skip

IN_RANGE = OpDef(
    "in_range",
    Family.POINTWISE,
    (Param("index", Kind.TENSOR), Param("extent", Kind.SCALAR)),
    fixed(DataType.Int),
    "tf::in_range({0}, {1})",
    "tf_in_range({0}, {1})",
    dtypes=INTEGERS,
    operands_as=each(fixed(DataType.Int)),
    checks=True,
    by_lane="{checks}.in_range({0}, {1})",
)

BINARY = (*ARITHMETIC, *COMPARISONS, *LOGIC, IN_RANGE)
