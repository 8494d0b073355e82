"""Ops without a tensor operand: constants, index functions, random numbers."""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.definition import Cost, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import fixed, same
from thunder_fuser.ops.dtype_sets import ALL, FLOATS, REAL_NUMBERS

SOURCES = (
    OpDef(
        "full",
        Family.FULL,
        (
            Param("shape", Kind.SHAPE),
            Param("fill_value", Kind.SCALAR),
            Param("dtype", Kind.DTYPE, dtypes=ALL),
        ),
        same,
        torch="torch.full({shape}, {0}, dtype={dtype}, device=device)",
        prims=("FULL",),
        domain="source",
        cost=Cost.FREE,
    ),
    OpDef(
        "iota",
        Family.IOTA,
        (
            Param("length", Kind.EXTENT),
            Param("start", Kind.SCALAR, None, absent=0),
            Param("step", Kind.SCALAR, None, absent=1),
            Param("dtype", Kind.DTYPE, DataType.Int, dtypes=REAL_NUMBERS),
        ),
        same,
        torch="tf_iota({length}, {0}, {1}, {dtype}, device)",
        prims=("IOTA",),
        domain="source",
        cost=Cost.FREE,
    ),
    OpDef(
        "uniform",
        Family.RANDOM,
        (
            Param("minval", Kind.SCALAR),
            Param("maxval", Kind.SCALAR),
            Param("shape", Kind.SHAPE),
            Param("rng_seed", Kind.SCALAR, None, True),
            Param("rng_offset", Kind.SCALAR, None, True),
            Param("dtype", Kind.DTYPE, DataType.Float, True, dtypes=FLOATS),
        ),
        same,
        cuda="tf::philox_uniform<{s}>({2}, {3}, {index}, {0}, {1})",
        torch="tf_philox_uniform({0}, {1}, {shape}, {2}, {3}, {dtype}, device)",
        prims=("UNIFORM_PHILOX",),
        domain="source",
        cost=Cost.EXPENSIVE,
    ),
    OpDef(
        "drawn_within",  # where a number of `uniform` is drawn from one of `count` words
        Family.RANDOM,
        (
            Param("first", Kind.SCALAR),
            Param("count", Kind.SCALAR),
            Param("shape", Kind.SHAPE),
            Param("rng_seed", Kind.SCALAR, keyword_only=True),
            Param("rng_offset", Kind.SCALAR, keyword_only=True),
        ),
        fixed(DataType.Bool),
        cuda="tf::philox_within({2}, {3}, {index}, {0}, {1})",
        torch="tf_philox_within({0}, {1}, {shape}, {2}, {3}, device)",
        domain="source",
        cost=Cost.EXPENSIVE,
    ),
    OpDef(
        "ceil_div",
        Family.SCALAR,
        (Param("a", Kind.SCALAR), Param("b", Kind.SCALAR)),
        fixed(DataType.Int),
        host="-(-{0} // {1})",
    ),
)
