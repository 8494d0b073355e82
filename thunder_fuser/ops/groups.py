"""Sums of the elements that an index sends to one place: `out[v] += x[t]` where `index[t]` is v.

    order = argsort(index)                 the places of the index, those of one group side by side
    ends = group_ends(index[order], n)     how many of them lie in the groups up to each
    out = group_sum(x, order, ends, dim)   out[v] = sum of x[order[k]], ends[v - 1] <= k < ends[v]

torch sorts, which is stable, so each group is added in the order of its elements and no two runs
differ. Each element of the result is written once, a zero where the group is empty.
"""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.definition import Cost, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import fixed, same
from thunder_fuser.ops.dtype_sets import INTEGERS, REAL_NUMBERS

_X = Param("x", Kind.TENSOR)

GROUPS = (
    OpDef(
        "argsort",
        Family.LIBRARY,
        (_X,),
        fixed(DataType.Int),
        torch="torch.argsort({0}, stable=True)",
        domain="vector",
        cost=Cost.NEVER,
        dtypes=INTEGERS,
        is_permutation=True,
    ),
    OpDef(
        "group_ends",
        Family.LIBRARY,
        (_X, Param("count", Kind.EXTENT)),
        fixed(DataType.Int),
        torch="tf_group_ends({0}, {count})",
        domain="group_ends",
        cost=Cost.NEVER,
        dtypes=INTEGERS,
    ),
    OpDef(
        "group_sum",
        Family.GROUPED,
        (
            Param("x", Kind.TENSOR, dtypes=REAL_NUMBERS),
            Param("order", Kind.TENSOR, dtypes=INTEGERS),
            Param("ends", Kind.TENSOR, dtypes=INTEGERS),
            Param("dim", Kind.DIM),
            Param("skip", Kind.INT, -1),
        ),
        same,
        torch="tf_group_sum({0}, {1}, {2}, {dim}, {skip})",
        domain="group_sum",
        cost=Cost.NEVER,
        dtypes=REAL_NUMBERS,
        combine="{0} + {1}",
        identity="{t}(0)",
    ),
)
