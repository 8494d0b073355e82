"""Run a fusion by its rows' torch expressions: the reference of `validate`, and the interpreter
where there is no C++ compiler.

Every op rounds its result to the tensor's dtype, as eager torch does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import TypeAlias

import torch
from torch import Tensor

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.scalar import Number, Scalar, Symbol
from thunder_fuser.ir.tensor import Attr, Expr, TensorView
from thunder_fuser.ops import Family, OpDef
from thunder_fuser.ops.definition import Operand
from thunder_fuser.runtime.dtypes import TORCH_DTYPES
from thunder_fuser.runtime.torch_ops import HELPERS

Argument: TypeAlias = "Tensor | Number"


def evaluate(
    fusion: Fusion,
    arguments: Sequence[Argument],
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> list[Tensor]:
    """The outputs of `fusion` in order.

    `arguments` are in the order of `fusion.inputs`; symbolic extents are taken from their shapes.
    Writes go into the target arguments after everything else is computed, and an output that is the
    value of a write is the target itself. With `dtype=torch.float64` all floats become f64 and all
    complex numbers c128, arguments stay unchanged, and integers and random numbers are what they
    would be without it. `device` is where constants are made if no argument says it. Raises
    ValueError where arguments do not fit the fusion's inputs.
    """
    symbols = bind_arguments(fusion, arguments)
    types = _Types(dtype)
    values = _inputs(fusion, arguments, types)
    given = sorted(values.values(), key=lambda v: v.ndim == 0)  # CPU numbers may join CUDA tensors
    device = given[0].device if given else device or torch.device("cpu")
    ending = _last_uses(fusion)
    for tv in fusion.tensors:
        if tv.definition is not None:
            values[tv] = _apply(tv, tv.definition, values, symbols, types, device)
        for spent in ending.get(tv, ()):
            del values[spent]
    return _finish(fusion, values)


def bind_arguments(fusion: Fusion, arguments: Sequence[Argument]) -> dict[Scalar, Number]:
    """The numbers that the scalars among inputs and the symbols in input extents stand for.

    Raises ValueError for a wrong count, a tensor in place of a number or the reverse, a wrong rank,
    an extent that contradicts the fusion, or two values for one symbol.
    """
    if len(arguments) != len(fusion.inputs):
        raise ValueError(f"fusion takes {len(fusion.inputs)} arguments, {len(arguments)} given")
    found: dict[Scalar, Number] = {}
    for position, (value, argument) in enumerate(zip(fusion.inputs, arguments, strict=True)):
        if isinstance(value, TensorView) != isinstance(argument, Tensor):
            wanted = "tensor" if isinstance(value, TensorView) else "number"
            raise ValueError(f"argument {position}: expected a {wanted}, got {type(argument)}")
        if isinstance(argument, Tensor) and isinstance(value, TensorView):
            _bind_extents(position, value, argument, found)
        elif not isinstance(value, TensorView) and not isinstance(argument, Tensor):
            found[value] = argument
    return found


def _bind_extents(
    position: int, tv: TensorView, argument: Tensor, found: dict[Scalar, Number]
) -> None:
    shape = tuple(argument.shape)
    if len(shape) != tv.ndim:
        raise ValueError(f"argument {position}: expected rank {tv.ndim}, got shape {shape}")
    for dim, (extent, size) in enumerate(zip(tv.extents, shape, strict=True)):
        expected = found.setdefault(extent, size) if isinstance(extent, Symbol) else size
        if isinstance(extent, sc.Constant):
            expected = extent.value
        if expected != size:
            raise ValueError(
                f"argument {position}: dim {dim} of shape {shape} is {size}, expected {expected}"
            )


class _Types:
    """Our types to torch's, floats widened to `override` where that is given."""

    def __init__(self, override: torch.dtype | None) -> None:
        self.override = override

    def __call__(self, dtype: DataType) -> torch.dtype:
        if self.override is not None and dtype.is_floating:
            return self.override
        if self.override is torch.float64 and dtype.is_complex:
            return torch.complex128
        return TORCH_DTYPES[dtype]


def _inputs(
    fusion: Fusion, arguments: Sequence[Argument], types: _Types
) -> dict[TensorView, Tensor]:
    targets = {w.target for w in fusion.writes}
    values: dict[TensorView, Tensor] = {}
    for tv, argument in zip(fusion.inputs, arguments, strict=True):
        if isinstance(tv, TensorView) and isinstance(argument, Tensor):
            value = argument.detach().to(types(tv.dtype))
            is_argument = value.data_ptr() == argument.data_ptr()
            spare = types.override is not None and is_argument and tv in targets
            values[tv] = value.clone() if spare else value
    return values


def _last_uses(fusion: Fusion) -> dict[TensorView, list[TensorView]]:
    """The computed tensors that nobody needs any more once the key is computed."""
    ending: dict[TensorView, list[TensorView]] = {}
    roots = set(fusion.roots)
    for tv, consumers in fusion.uses.items():
        if tv.definition is not None and consumers and tv not in roots:
            ending.setdefault(consumers[-1], []).append(tv)
    return ending


def _apply(
    tv: TensorView,
    expr: Expr,
    values: Mapping[TensorView, Tensor],
    symbols: Mapping[Scalar, Number],
    types: _Types,
    device: torch.device,
) -> Tensor:
    row = expr.op
    is_random = row.family is Family.RANDOM  # the numbers drawn do not depend on `types`
    attrs = {
        name: _attribute(attr, symbols, _Types(None) if is_random else types)
        for name, attr in expr.attrs
    }
    operands = _operands(expr, values, symbols, types, device)
    names = tuple(attrs)
    result = _function(row, len(operands), names)(device, *operands, *attrs.values())
    return result.to(types(tv.dtype))


def _operands(
    expr: Expr,
    values: Mapping[TensorView, Tensor],
    symbols: Mapping[Scalar, Number],
    types: _Types,
    device: torch.device,
) -> list[Argument]:
    """The operands in the types the row wants them in.

    Elementwise ops get their numbers as tensors of rank 0. Beside 16-bit floats such a number is
    not rounded to 16 bits: torch and our kernels compute in f32 there, and so does this.
    """
    row, inputs = expr.op, expr.inputs
    wanted = row.operand_dtypes([Operand(v.dtype, not isinstance(v, TensorView)) for v in inputs])
    is_elementwise = row.family is Family.POINTWISE
    has_number = not all(isinstance(v, TensorView) for v in inputs)
    knows_storage = "{s}" in row.cuda
    out: list[Argument] = []
    for value, dtype in zip(inputs, wanted, strict=True):
        if has_number and is_elementwise and not knows_storage:
            dtype = dtype.compute_type
        if isinstance(value, TensorView):
            out.append(values[value].to(types(dtype)))
        elif is_elementwise:
            number = _number(value, symbols)
            out.append(torch.tensor(number, dtype=types(dtype), device=device))
        else:
            out.append(_number(value, symbols))
    return out


def _number(scalar: Scalar, symbols: Mapping[Scalar, Number]) -> Number:
    bound = sc.bind(scalar, symbols)
    if not isinstance(bound, sc.Constant):
        missing = sorted(str(s) for s in sc.symbols_of(bound))
        raise ValueError(f"{scalar} cannot be evaluated: no argument gives {', '.join(missing)}")
    return bound.value


def _attribute(attr: Attr, symbols: Mapping[Scalar, Number], types: _Types) -> object:
    if isinstance(attr, tuple):
        return [_attribute(entry, symbols, types) for entry in attr]
    if isinstance(attr, DataType):
        return types(attr)
    if isinstance(attr, sc.Constant | sc.Symbol | sc.ScalarExpr):
        return _number(attr, symbols)
    return attr


@cache
def _function(row: OpDef, arity: int, attrs: tuple[str, ...]) -> Callable[..., Tensor]:
    """The row's torch expression as a function of (device, operands..., attributes...)."""
    operands = [f"a{k}" for k in range(arity)]
    text = row.torch
    if text.isidentifier():
        text = f"torch.{text}({', '.join(operands)})"
    absent = ["None"] * (len(row.params) - arity)  # optional operands that were not given
    optional = {p.name: "None" for p in row.params}
    named = optional | {name: name for name in attrs} | {"operands": f"{', '.join(operands)},"}
    body = text.format(*operands, *absent, **named)
    source = f"lambda {', '.join(['device', *operands, *attrs])}: {body}"
    function: Callable[..., Tensor] = eval(source, {"torch": torch, **HELPERS})
    return function


def row_function(row: OpDef) -> Callable[..., Tensor]:
    """An elementwise row's torch expression as a function of its operands (tensors)."""
    names = tuple(p.name for p in row.params if p not in row.operands)

    def call(*operands: Tensor, **attrs: object) -> Tensor:
        ordered = [attrs[name] for name in names]
        return _function(row, len(operands), names)(operands[0].device, *operands, *ordered)

    return call


def op_function(tv: TensorView, device: torch.device) -> Callable[..., Tensor]:
    """The op that makes a tensor of a concrete fusion as a function of its operands, all of them
    tensors of the types that it takes."""
    expr = tv.expr
    attrs = [_attribute(attr, {}, _Types(None)) for _, attr in expr.attrs]
    function = _function(expr.op, len(expr.inputs), tuple(name for name, _ in expr.attrs))

    def call(*operands: Tensor) -> Tensor:
        return function(device, *operands, *attrs)

    return call


def _finish(fusion: Fusion, values: Mapping[TensorView, Tensor]) -> list[Tensor]:
    """Do the writes and collect the outputs; what still needs an old value gets a copy of it."""
    targets = {values[w.target].untyped_storage().data_ptr() for w in fusion.writes}

    def safe(tensor: Tensor) -> Tensor:
        return tensor.clone() if tensor.untyped_storage().data_ptr() in targets else tensor

    written = [(values[w.target], safe(values[w.value])) for w in fusion.writes]
    target_of = {w.value: values[w.target] for w in fusion.writes}
    outputs = [target_of[tv] if tv in target_of else safe(values[tv]) for tv in fusion.outputs]
    for target, value in written:
        target.copy_(value)
    return outputs
