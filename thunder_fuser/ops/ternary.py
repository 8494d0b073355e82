"""Elementwise ops of three and four operands, and the cast."""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ops.definition import Cost, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import (
    complex_parts,
    condition_then,
    each,
    floating,
    promoted,
    same,
    tail_promoted,
)
from thunder_fuser.ops.dtype_sets import (
    ALL,
    INEXACT,
    NUMBERS,
    REAL_NUMBERS,
    SINGLE_OR_DOUBLE,
    STORED,
)


def _params(names: str, scalars: str = "") -> tuple[Param, ...]:
    tensors = tuple(Param(name, Kind.TENSOR_OR_SCALAR) for name in names.split())
    return (*tensors, *(Param(name, Kind.SCALAR) for name in scalars.split()))


def _promoting(
    name: str,
    params: tuple[Param, ...],
    cuda: str,
    torch: str,
    host: str,
    prim: str = "",
    dtypes: frozenset[DataType] = ALL,
    ulps: float = 0.0,
    wraps: str = "",
) -> OpDef:
    """All operands and the result are of the promoted type."""
    return OpDef(
        name,
        Family.POINTWISE,
        params,
        promoted,
        cuda,
        torch,
        host,
        (prim,) if prim else (),
        dtypes=dtypes,
        operands_as=each(promoted),
        wraps=wraps,
        ulps=ulps,
    )


CAST = OpDef(
    "cast",
    Family.POINTWISE,
    (Param("x", Kind.TENSOR_OR_SCALAR), Param("dtype", Kind.DTYPE)),
    same,
    "tf::convert<{t}>({0})",
    "{0}.to({dtype})",
    "{0}",
    ("CONVERT_ELEMENT_TYPE",),
    cost=Cost.FREE,
    dtypes=STORED,
)
WHERE = OpDef(
    "where",
    Family.POINTWISE,
    _params("condition x y"),
    tail_promoted,
    "{0} ? {1} : {2}",
    "where",
    "{1} if {0} else {2}",
    ("WHERE",),
    operands_as=condition_then(tail_promoted),
)
THRESHOLD = OpDef(
    "threshold",
    Family.POINTWISE,
    _params("x", "threshold value"),
    same,
    "{0} <= {1} ? {2} : {0}",
    "torch.where({0} <= {1}, {2}, {0})",
    "{2} if {0} <= {1} else {0}",
    dtypes=REAL_NUMBERS,
    operands_as=each(same),
    is_step=True,
)
COMPLEX = OpDef(
    "complex",
    Family.POINTWISE,
    _params("real imag"),
    complex_parts,
    "{t}{{{0}, {1}}}",
    "complex",
    "complex({0}, {1})",
    dtypes=SINGLE_OR_DOUBLE,
    operands_as=each(floating),
)

TERNARY = (
    CAST,
    WHERE,
    _promoting("lerp", _params("start end weight"), "tf::lerp({0}, {1}, {2})", "lerp",
               "lerp({0}, {1}, {2})", "LERP", INEXACT, 8.0),
    _promoting("clamp", _params("x", "min max"), "tf::clamp({0}, {1}, {2})",
               "torch.clamp({0}, {1}, {2})", "clamp({0}, {1}, {2})",
               dtypes=REAL_NUMBERS),
    THRESHOLD,
    _promoting("addcmul", _params("a t1 t2", "value"), "{0} + {3} * {1} * {2}",
               "tf_addcmul({0}, {1}, {2}, {3})", "{0} + {3} * {1} * {2}", dtypes=NUMBERS, ulps=4.0,
               wraps="tf::wrapped_add({0}, tf::wrapped_mul(tf::wrapped_mul({3}, {1}), {2}))"),
    _promoting("add_alpha", _params("a b", "alpha"), "{0} + {2} * {1}",
               "tf_add_alpha({0}, {1}, {2})",
               "{0} + {2} * {1}", dtypes=NUMBERS, ulps=4.0,
               wraps="tf::wrapped_add({0}, tf::wrapped_mul({2}, {1}))"),
    _promoting("sub_alpha", _params("a b", "alpha"), "{0} - {2} * {1}",
               "tf_sub_alpha({0}, {1}, {2})",
               "{0} - {2} * {1}", dtypes=NUMBERS, ulps=4.0,
               wraps="tf::wrapped_sub({0}, tf::wrapped_mul({2}, {1}))"),
    COMPLEX,
)  # fmt: skip
