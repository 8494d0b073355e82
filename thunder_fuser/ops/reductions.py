"""Reductions: a combine step, its identity, and the axes they remove."""

from __future__ import annotations

from collections.abc import Iterable

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.definition import Cost, DtypeRule, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import boolean, each, fixed, integer_sum, same
from thunder_fuser.ops.dtype_sets import ALL, REAL


def _reduction(
    name: str,
    rule: DtypeRule,
    combine: str,
    identity: str,
    torch: str,
    *prims: str,
    real: bool,
    neutral: int | None = None,
    in_pairs: bool = False,
) -> OpDef:
    return OpDef(
        name,
        Family.REDUCTION,
        (Param("x", Kind.TENSOR), Param("dims", Kind.DIM_SET, None)),
        rule,
        torch=torch,
        prims=prims,
        domain="reduce",
        cost=Cost.NEVER,
        dtypes=REAL if real else ALL,
        operands_as=each(rule),
        combine=combine,
        identity=identity,
        neutral=neutral,
        in_pairs=in_pairs,
    )


def _of_state(
    name: str,
    dtypes: Iterable[DataType],
    state: str,
    size: int,
    *,
    rule: DtypeRule = same,
    identity: str = "{{}}",
    combine: str,
    step: str,
    finish: str,
    steps: str = "",
    meet: str = "",
) -> OpDef:
    """A reduction that knows `size` numbers of its terms so far. It is no operation of a
    definition: `presegment` puts it where a second pass would read memory again."""
    return OpDef(
        name,
        Family.REDUCTION,
        (Param("x", Kind.TENSOR), Param("dims", Kind.DIM_SET, None)),
        rule,
        torch=f"tf_{name}({{0}}, {{dims}})",
        domain="reduce",
        cost=Cost.NEVER,
        dtypes=frozenset(dtypes),
        combine=combine,
        identity=state + identity,
        state=state,
        state_size=size,
        meet=meet,
        step=step,
        steps=steps,
        finish=finish,
    )


# The sum of (x - mean(x))^2.
SQUARED_DEVIATION = _of_state(
    "squared_deviation",
    (DataType.Float, DataType.Double),
    "tf::Moments<{t}>",
    4,
    combine="tf::merged({0}, {1})",
    step="tf::observed({0}, {1})",
    steps="tf::observed({0}, {1})",
    finish="tf::about_mean({0})",
    meet="tf::met<{width}>({0})",
)

# The sum of exp(x - max(x)), below the nearest finite number where a maximum is infinite.
EXPONENTIALS = _of_state(
    "exponentials",
    (DataType.Float,),
    "tf::Exponentials",
    2,
    combine="tf::below_both({0}, {1})",
    step="tf::below({0}, {1})",
    steps="tf::below({0}, {1})",
    finish="tf::below_finite({0})",
)


def _of_equals(name: str, state: str, first: str) -> OpDef:
    """How many terms equal the extremum of all, of up to 2^31; none where that is NaN."""
    return _of_state(
        name,
        (DataType.Float,),
        state,
        2,
        rule=fixed(DataType.Int32),
        identity=f"{{{{tf::{first}<float>(), 0}}}}",
        combine="tf::beside({0}, {1})",
        step="tf::counted({0}, {1})",
        steps="tf::counted({0}, {1})",
        finish="tf::count_of({0})",
        meet="tf::all_equals<{width}>({0})",
    )


MAXIMA = _of_equals("maxima", "tf::Equals<true>", "lowest")
MINIMA = _of_equals("minima", "tf::Equals<false>", "highest")
EQUALS = {MAXIMA: "max", MINIMA: "min"}  # the extremum that is meant

# max and min carry NaN through, as torch's amax and amin do.
REDUCTIONS = (
    _reduction("sum", integer_sum, "{0} + {1}", "{t}(0)", "tf_sum({0}, {dims})", "SUM",
               real=False, neutral=0),
    _reduction("prod", integer_sum, "{0} * {1}", "{t}(1)", "tf_prod({0}, {dims})", "PROD",
               real=False, neutral=1),
    _reduction("max", same, "tf::maximum({0}, {1})", "tf::lowest<{t}>()", "tf_amax({0}, {dims})",
               "AMAX", real=True, in_pairs=True),
    _reduction("min", same, "tf::minimum({0}, {1})", "tf::highest<{t}>()", "tf_amin({0}, {dims})",
               "AMIN", real=True, in_pairs=True),
    _reduction("any", boolean, "{0} || {1}", "false", "tf_any({0}, {dims})", real=False),
    _reduction("all", boolean, "{0} && {1}", "true", "tf_all({0}, {dims})", real=False),
)  # fmt: skip
