"""Ops that move elements and do no arithmetic. Their meaning is `domain`: root to logical axes."""

from __future__ import annotations

from thunder_fuser.ops.definition import Cost, Family, Kind, OpDef, Param
from thunder_fuser.ops.dtype_rules import promoted, same
from thunder_fuser.ops.dtype_sets import ALL, STORED

_SHAPE, _DIM_SET = Param("shape", Kind.SHAPE), Param("dims", Kind.DIM_SET)


def _moving(
    name: str,
    torch: str,
    prim: str,
    *params: Param,
    family: Family = Family.VIEW,
    copies: bool = False,
) -> OpDef:
    """Of x. What torch `copies` it does so of no 8-bit floats."""
    return OpDef(
        name,
        family,
        (Param("x", Kind.TENSOR), *params),
        same,
        torch=torch,
        prims=(prim,) if prim else (),
        domain=name,
        copies=copies,
        cost=Cost.FREE,
        dtypes=ALL if copies else STORED,
    )


CAT = OpDef(
    "cat",
    Family.CAT,
    (Param("tensors", Kind.TENSORS), Param("dim", Kind.DIM, 0)),
    promoted,
    torch="torch.cat(({operands}), {dim})",
    prims=("CAT",),
    domain="cat",
    cost=Cost.FREE,
)

SHAPES = (
    _moving("broadcast_in_dim", "tf_broadcast_in_dim({0}, {shape}, {broadcast_dims})",
            "BROADCAST_IN_DIM", _SHAPE, Param("broadcast_dims", Kind.DIMS, wrapped_by="shape")),
    _moving("broadcast", "tf_broadcast({0}, {is_broadcast_dim})", "",
            Param("is_broadcast_dim", Kind.BOOLS)),
    _moving("expand", "{0}.expand({shape})", "", _SHAPE),
    _moving("permute", "{0}.permute({dims})", "TRANSPOSE", Param("dims", Kind.DIMS)),
    _moving("squeeze", "tf_squeeze({0}, {dims})", "SQUEEZE", _DIM_SET,
            Param("squeeze_expanded", Kind.FLAG, False)),
    _moving("reshape", "{0}.reshape({new_shape})", "RESHAPE", Param("new_shape", Kind.SHAPE)),
    _moving("slice", "tf_slice({0}, {start_indices}, {end_indices}, {strides})", "SLICE",
            Param("start_indices", Kind.SHAPE), Param("end_indices", Kind.SHAPE),
            Param("strides", Kind.SHAPE, None, absent=1)),
    _moving("flip", "{0}.flip({dims})", "FLIP", _DIM_SET, copies=True),
    _moving("stride_order", "tf_stride_order({0}, {stride_order})", "STRIDE_ORDER",
            Param("stride_order", Kind.DIMS)),
    _moving("pad", "tf_pad({0}, {pad_widths}, {1})", "PAD", Param("pad_widths", Kind.SHAPE),
            Param("value", Kind.SCALAR, None, absent=0), family=Family.PAD, copies=True),
    CAT,
)  # fmt: skip
