"""Sums of the elements that an index sends to one place: `out[v] += x[t]` where `index[t]` is v.

    order = argsort(index)                 the places of the index, those of one group side by side
    ends = group_ends(index[order], n)     how many of them lie in the groups up to each
    out = group_sum(x, order, ends, dim)   out[v] = sum of x[order[k]], ends[v - 1] <= k < ends[v]

torch sorts, which is stable, so each group is added in the order of its elements and no two runs
differ. Each element of the result is written once, a zero where the group is empty.

Of a long order `presegment/split_groups.py` sums pieces of groups first:

    keys = index[order]
    pieces = group_pieces(x, order, keys, dim, size)       the pieces of `size` that lie in a group
    out = group_sum_of_pieces(x, order, ends, pieces, dim, size=size)                  the same sums
"""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.definition import Cost, DtypeRule, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import accumulator, fixed, same
from thunder_fuser.ops.dtype_sets import INTEGERS, REAL_NUMBERS

_X = Param("x", Kind.TENSOR)
_ORDER = Param("order", Kind.TENSOR, dtypes=INTEGERS)
_ENDS = Param("ends", Kind.TENSOR, dtypes=INTEGERS)
_DIM, _SKIP = Param("dim", Kind.DIM), Param("skip", Kind.INT, -1)
_SIZE = Param("size", Kind.INT, 64)


def _sum(name: str, params: tuple[Param, ...], torch: str, dtype: DtypeRule = same) -> OpDef:
    return OpDef(
        name,
        Family.GROUPED,
        params,
        dtype,
        torch=torch,
        domain=name,
        cost=Cost.NEVER,
        dtypes=REAL_NUMBERS,
        combine="{0} + {1}",
        identity="{t}(0)",
    )


GROUPS = (
    OpDef(
        "argsort",
        Family.LIBRARY,
        (_X,),
        fixed(DataType.Int),
        torch="torch.argsort({0}, stable=True)",
        domain="argsort",
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
    _sum(
        "group_sum", (_X, _ORDER, _ENDS, _DIM, _SKIP), "tf_group_sum({0}, {1}, {2}, {dim}, {skip})"
    ),
    _sum(
        "group_pieces",
        (_X, _ORDER, Param("keys", Kind.TENSOR, dtypes=INTEGERS), _DIM, _SKIP, _SIZE),
        "tf_group_pieces({0}, {1}, {2}, {dim}, {skip}, {size})",
        accumulator,
    ),
    _sum(
        "group_sum_of_pieces",
        (_X, _ORDER, _ENDS, Param("pieces", Kind.TENSOR), _DIM, _SKIP, _SIZE),
        "tf_group_sum({0}, {1}, {2}, {dim}, {skip})",
    ),
)
