"""Ops that read an element at an index which another tensor holds.

The gathered axis of `x` is `dim`. An index outside of [0, extent) is an error when the program
runs, never an access: negative ones are wrapped by whoever writes `x[index]`.
"""

from __future__ import annotations

from thunder_fuser.ops.definition import Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import same
from thunder_fuser.ops.dtype_sets import INTEGERS

_X = Param("x", Kind.TENSOR)
_INDEX = Param("index", Kind.TENSOR, dtypes=INTEGERS)
_DIM = Param("dim", Kind.DIM)

GATHERS = (
    OpDef(
        "index_select",
        Family.GATHER,
        (_X, _INDEX, _DIM),
        same,
        torch="tf_index_select({0}, {1}, {dim})",
        prims=("TAKE",),
        domain="index_select",
    ),
    OpDef(
        "take_along_axis",
        Family.GATHER,
        (_X, _INDEX, _DIM),
        same,
        torch="tf_take_along_axis({0}, {1}, {dim})",
        domain="take_along_axis",
    ),
)
