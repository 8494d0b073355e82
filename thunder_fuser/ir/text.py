"""The printed form of a fusion: what dumps, golden files, errors and `explain` show.

fusion(T0: bf16[i2, i8], S0: f64) {
  T1: f32[i2, i8] = cast(T0, dtype=f32)
  T2: f32[i2, i8] = mul(T1, S0)
  return T2
}
"""

from __future__ import annotations

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.scalar import Constant, ScalarExpr, Symbol
from thunder_fuser.ir.tensor import Attr, Expr, TensorView, Value


def tensor_names(fusion: Fusion) -> dict[TensorView, str]:
    """T0, T1, ...: inputs in order, then the others, producers first."""
    return {tv: f"T{k}" for k, tv in enumerate(fusion.tensors)}


def print_fusion(fusion: Fusion) -> str:
    names = tensor_names(fusion)
    inputs = ", ".join(
        f"{names[v]}: {print_type(v)}" if isinstance(v, TensorView) else f"{v}: {v.dtype}"
        for v in fusion.inputs
    )
    lines = [f"fusion({inputs}) {{"]
    for tv in fusion.tensors:
        if tv.definition is not None:
            lines.append(f"  {names[tv]}: {print_type(tv)} = {print_expr(tv.definition, names)}")
    lines += [f"  {names[w.target]} <- {names[w.value]}" for w in fusion.writes]
    if fusion.outputs:
        lines.append(f"  return {', '.join(names[tv] for tv in fusion.outputs)}")
    return "\n".join([*lines, "}"])


def print_type(tv: TensorView) -> str:
    logical = tv.domain.logical
    text = f"{tv.dtype}[{', '.join(map(print_axis, logical))}]"
    visible = [a for a in logical if not a.is_reduction]
    if list(tv.domain.allocation) != visible:
        order = [visible.index(a) for a in tv.domain.allocation if a in visible]
        text += f" allocation {order}"
    if any(a.parallel_type.is_device for a in tv.domain.loop):
        text += f" loop [{', '.join(map(_loop_axis, tv.domain.loop))}]"
    return text


def _loop_axis(axis: IterDomain) -> str:
    bound = f"{axis.parallel_type.value} " if axis.parallel_type.is_device else ""
    return bound + print_axis(axis)


def print_axis(axis: IterDomain) -> str:
    """`i8`: an iteration axis of extent 8; `b1`: a broadcast; `r4`: reduced; `i{i0}`: symbolic."""
    extent = str(axis.extent)
    return f"{axis.iter_type.value}{extent if extent.isdigit() else '{' + extent + '}'}"


def print_expr(expr: Expr, names: dict[TensorView, str]) -> str:
    args = [_value(v, names) for v in expr.inputs]
    args += [f"{name}={_attr(a)}" for name, a in expr.attrs]
    return f"{expr.op.name}({', '.join(args)})"


def _value(value: Value, names: dict[TensorView, str]) -> str:
    return names[value] if isinstance(value, TensorView) else str(value)


def _attr(attr: Attr) -> str:
    if isinstance(attr, tuple):
        return f"[{', '.join(map(_attr, attr))}]"
    if isinstance(attr, DataType | Constant | Symbol | ScalarExpr):
        return str(attr)
    return repr(attr)
