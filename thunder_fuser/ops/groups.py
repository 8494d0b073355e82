"""Sums of the elements that an index sends to one place: `out[v] += x[t]` where `index[t]` is v.

    order = group_order(index, n)          the places of the index, those of one group side by side
    keys = group_keys(index, order, n)     index[order], each checked to be below n
    ends = group_ends(keys, n)             how many places lie in the groups up to each
    out = group_sum(x, order, ends, dim)   out[v] = sum of x[order[k]], ends[v - 1] <= k < ends[v]

The places of a group stay in their order, so each group is added in the order of its elements and
no two runs differ. Each element of the result is written once, a zero where the group is empty.

Of a long order `presegment/split_groups.py` sums pieces of groups first:

    pieces = group_pieces(x, order, keys, dim, size)       the pieces of `size` that lie in a group
    out = group_sum_of_pieces(x, order, ends, pieces, dim, size=size)                  the same sums

and `presegment/split_orders.py` puts a long index in order by its digits of some bits, the lowest
first, places with equal digits in the order in which they are:

    counts = digit_counts(x, n, low, bits, chunk)    how often each chunk of x has each digit, and
                                                     empty ones that make them a multiple of CHUNKS
    order = digit_order(x, counts, ...)              the places of x by their digit
    keys = digit_keys(x, counts, ...)                x[order]
    order = digit_reorder(x, counts, order, ...)     another order by the digits of x

Where each element of a row has an index of its own, nothing is put in order before:

    out = pick_sum(x, index, dim, n)       out[v] = sum of x[k] where index[k] is v, along dim
"""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.definition import Cost, DtypeRule, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import accumulator, fixed, same
from thunder_fuser.ops.dtype_sets import INTEGERS, REAL_NUMBERS

CHUNKS = 128  # as many or a multiple of them have counts, so that readers test for none

_X = Param("x", Kind.TENSOR)
_ORDER = Param("order", Kind.TENSOR, dtypes=INTEGERS)
_ENDS = Param("ends", Kind.TENSOR, dtypes=INTEGERS)
_DIM, _SKIP = Param("dim", Kind.DIM), Param("skip", Kind.INT, -1)
_SIZE = Param("size", Kind.INT, 64)
_COUNT = Param("count", Kind.EXTENT)
_COUNTS = Param("counts", Kind.TENSOR, dtypes=INTEGERS)
_DIGIT = (Param("low", Kind.INT), Param("bits", Kind.INT), Param("chunk", Kind.INT))


def counted_chunks(places: int, chunk: int) -> int:
    """Chunks of so many places of which there are counts: those behind the last place are empty."""
    return -(-places // (chunk * CHUNKS)) * CHUNKS


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


def _order(name: str, params: tuple[Param, ...], torch: str, is_permutation: bool = False) -> OpDef:
    return OpDef(
        name,
        Family.ORDER,
        params,
        fixed(DataType.Int),
        torch=torch,
        domain=name,
        cost=Cost.NEVER,
        dtypes=INTEGERS,
        is_permutation=is_permutation,
    )


def _stage(
    name: str,
    params: tuple[Param, ...],
    torch: str,
    is_permutation: bool = False,
    domain: str = "digit_order",
    dtype: DataType = DataType.Int32,
) -> OpDef:
    return OpDef(
        name,
        Family.STAGE,
        (*params, *_DIGIT),
        fixed(dtype),
        torch=torch,
        domain=domain,
        cost=Cost.NEVER,
        dtypes=INTEGERS,
        is_permutation=is_permutation,
    )


GROUPS = (
    _order("group_order", (_X, _COUNT), "tf_group_order({0}, {count})", is_permutation=True),
    _order("group_keys", (_X, _ORDER, _COUNT), "tf_group_keys({0}, {1}, {count})"),
    _order("group_ends", (_X, _COUNT), "tf_group_ends({0}, {count})"),
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
    OpDef(
        "pick_sum",
        Family.PICKED,
        (_X, Param("index", Kind.TENSOR, dtypes=INTEGERS), _DIM, _COUNT),
        same,
        torch="tf_pick_sum({0}, {1}, {dim}, {count})",
        domain="pick_sum",
        cost=Cost.NEVER,
        dtypes=REAL_NUMBERS,
        combine="{0} + {1}",
        identity="{t}(0)",
    ),
    _stage(
        "digit_counts",
        (_X, _COUNT),
        "tf_digit_counts({0}, {count}, {low}, {bits}, {chunk})",
        domain="digit_counts",
        dtype=DataType.Int16,
    ),
    _stage(
        "digit_order",
        (_X, _COUNTS),
        "tf_digit_order({0}, {low}, {bits}).int()",
        is_permutation=True,
    ),
    _stage("digit_keys", (_X, _COUNTS), "tf_digit_keys({0}, {low}, {bits})"),
    _stage(
        "digit_reorder",
        (_X, _COUNTS, _ORDER),
        "tf_digit_reorder({0}, {2}, {low}, {bits})",
        is_permutation=True,
    ),
)
