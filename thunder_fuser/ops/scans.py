"""Running sums: each element of a row combined with all before it, in a fixed order."""

from __future__ import annotations

from thunder_fuser.ops.definition import Cost, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import each, integer_sum
from thunder_fuser.ops.dtype_sets import REAL

SCANS = (
    OpDef(
        "cumsum",
        Family.SCAN,
        (Param("x", Kind.TENSOR), Param("dim", Kind.DIM), Param("reverse", Kind.FLAG, False)),
        integer_sum,
        torch="tf_cumsum({0}, {dim}, {reverse})",
        domain="scan",
        cost=Cost.NEVER,
        dtypes=REAL,
        operands_as=each(integer_sum),
        combine="{0} + {1}",
        identity="{t}(0)",
    ),
)
