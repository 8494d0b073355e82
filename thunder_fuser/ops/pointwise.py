"""Elementwise ops. A new one is one line here and nothing anywhere else."""

from __future__ import annotations

from thunder_fuser.ops.definition import Cost, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import boolean, floating, promoted, same, tail_promoted

_UNARY = (Param("x", Kind.TENSOR_OR_SCALAR),)
_BINARY = (Param("a", Kind.TENSOR_OR_SCALAR), Param("b", Kind.TENSOR_OR_SCALAR))
_CAST = (Param("x", Kind.TENSOR_OR_SCALAR), Param("dtype", Kind.DTYPE))
_TERNARY = (
    Param("condition", Kind.TENSOR_OR_SCALAR),
    Param("x", Kind.TENSOR_OR_SCALAR),
    Param("y", Kind.TENSOR_OR_SCALAR),
)
P = Family.POINTWISE

UNARY = (
    OpDef("set", P, _UNARY, same, "{0}", "clone", "{0}", ("CLONE", "SHALLOW_COPY"), cost=Cost.FREE),
    OpDef("segment_set", P, _UNARY, same, "{0}", "clone", "{0}", cost=Cost.FREE),
    OpDef("neg", P, _UNARY, same, "-{0}", "neg", "-{0}", ("NEG",)),
    OpDef("exp", P, _UNARY, floating, "tf::exp({0})", "exp", "math.exp({0})", ("EXP",)),
    OpDef(
        "rsqrt",
        P,
        _UNARY,
        floating,
        "tf::rsqrt({0})",
        "rsqrt",
        "{0} ** -0.5",
        ("RSQRT",),
        sample=(0.1, 9.0),
    ),
)
BINARY = (
    OpDef("add", P, _BINARY, promoted, "{0} + {1}", "add", "{0} + {1}", ("ADD",)),
    OpDef("sub", P, _BINARY, promoted, "{0} - {1}", "sub", "{0} - {1}", ("SUB",)),
    OpDef("mul", P, _BINARY, promoted, "{0} * {1}", "mul", "{0} * {1}", ("MUL",)),
    OpDef("lt", P, _BINARY, boolean, "{0} < {1}", "lt", "{0} < {1}", ("LT",)),
)
OTHER = (
    OpDef(
        "cast",
        P,
        _CAST,
        same,
        "{0}",
        "{0}.to({dtype})",
        "{0}",
        ("CONVERT_ELEMENT_TYPE",),
        cost=Cost.FREE,
    ),
    OpDef(
        "where",
        P,
        _TERNARY,
        tail_promoted,
        "{0} ? {1} : {2}",
        "where",
        "{1} if {0} else {2}",
        ("WHERE",),
    ),
)

POINTWISE = (*UNARY, *BINARY, *OTHER)
