"""Reductions: a combine step, its identity, and the axes they remove."""

from __future__ import annotations

from thunder_fuser.ops.definition import Cost, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import integer_sum

_REDUCE = (Param("x", Kind.TENSOR), Param("dims", Kind.DIM_SET, None))

REDUCTIONS = (
    OpDef(
        "sum",
        Family.REDUCTION,
        _REDUCE,
        integer_sum,
        torch="{0}.sum({dims})",
        prims=("SUM",),
        domain="reduce",
        cost=Cost.NEVER,
        combine="{0} + {1}",
        identity="0",
    ),
)
