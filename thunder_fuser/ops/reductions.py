"""Reductions: a combine step, its identity, and the axes they remove."""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.definition import Cost, DtypeRule, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import boolean, each, integer_sum, same
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


# The sum of (x - mean(x))^2 in one pass. It is no operation of a definition: `presegment` puts it
# where a second pass would read memory again.
SQUARED_DEVIATION = OpDef(
    "squared_deviation",
    Family.REDUCTION,
    (Param("x", Kind.TENSOR), Param("dims", Kind.DIM_SET, None)),
    same,
    torch="tf_squared_deviation({0}, {dims})",
    domain="reduce",
    cost=Cost.NEVER,
    dtypes=frozenset({DataType.Float, DataType.Double}),
    combine="tf::merged({0}, {1})",
    identity="tf::Moments<{t}>{{}}",
    state="tf::Moments<{t}>",
    state_size=4,
    meet="tf::met<{width}>({0})",
    step="tf::observed({0}, {1})",
    finish="tf::about_mean({0})",
)

# The sum of exp(x - max(x)) in one pass, below the nearest finite number where a maximum is
# infinite. It is no operation of a definition either: `presegment` puts it where the maximum would
# take a pass over memory of its own.
EXPONENTIALS = OpDef(
    "exponentials",
    Family.REDUCTION,
    (Param("x", Kind.TENSOR), Param("dims", Kind.DIM_SET, None)),
    same,
    torch="tf_exponentials({0}, {dims})",
    domain="reduce",
    cost=Cost.NEVER,
    dtypes=frozenset({DataType.Float}),
    combine="tf::below_both({0}, {1})",
    identity="tf::Exponentials{{}}",
    state="tf::Exponentials",
    state_size=2,
    step="tf::below({0}, {1})",
    finish="tf::below_finite({0})",
)

# max and min carry NaN through, as torch's amax and amin do.
REDUCTIONS = (
    _reduction(
        "sum",
        integer_sum,
        "{0} + {1}",
        "{t}(0)",
        "tf_sum({0}, {dims})",
        "SUM",
        real=False,
        neutral=0,
    ),
    _reduction(
        "prod",
        integer_sum,
        "{0} * {1}",
        "{t}(1)",
        "tf_prod({0}, {dims})",
        "PROD",
        real=False,
        neutral=1,
    ),
    _reduction(
        "max",
        same,
        "tf::maximum({0}, {1})",
        "tf::lowest<{t}>()",
        "tf_amax({0}, {dims})",
        "AMAX",
        real=True,
        in_pairs=True,
    ),
    _reduction(
        "min",
        same,
        "tf::minimum({0}, {1})",
        "tf::highest<{t}>()",
        "tf_amin({0}, {dims})",
        "AMIN",
        real=True,
        in_pairs=True,
    ),
    _reduction("any", boolean, "{0} || {1}", "false", "tf_any({0}, {dims})", real=False),
    _reduction("all", boolean, "{0} && {1}", "true", "tf_all({0}, {dims})", real=False),
)
