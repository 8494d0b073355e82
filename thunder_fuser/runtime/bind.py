"""Bind a fusion to a class of arguments: extents become numbers, inputs get their real strides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import torch

from thunder_fuser.analysis.layout import Layout, allocation_order, misfit
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, replay, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.scalar import Number, Scalar
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.argument_class import layout_of, shape_symbols
from thunder_fuser.runtime.evaluate import bind_arguments
from thunder_fuser.runtime.plan import CPU_SCALAR

Argument: TypeAlias = "torch.Tensor | Number"


@dataclass(frozen=True, eq=False)
class BoundFusion:
    """A concrete fusion. `arguments` says what each argument of a call is in it, `tensors` maps the
    tensors of the fusion it came from."""

    fusion: Fusion
    layouts: Mapping[TensorView, Layout]
    arguments: tuple[TensorView | Scalar, ...]
    device: torch.device
    tensors: Mapping[TensorView, TensorView]


def bind(
    fusion: Fusion, arguments: Sequence[Argument], device: torch.device | None = None
) -> BoundFusion:
    """`fusion` with every size known. A zero-dimensional CPU tensor beside CUDA tensors becomes a
    scalar, read at every call.

    Raises ValueError where arguments do not fit the fusion's inputs, in number, sizes or the way
    their allocation domains say that they lie, where they are on several devices, and where one is
    written whose elements share memory.
    """
    symbols = bind_arguments(fusion, arguments)
    where = _device(arguments, device)
    shaping = shape_symbols(fusion)
    values: dict[Scalar, Number] = {s: v for s, v in symbols.items() if s in shaping}
    roles: dict[TensorView, TensorView | Scalar] = {}
    layouts: dict[TensorView, Layout] = {}
    positions = {v: k for k, v in enumerate(fusion.inputs)}
    targets = {write.target for write in fusion.writes}

    def leaf(old: TensorView) -> TensorView:
        argument = arguments[positions[old]]
        assert isinstance(argument, torch.Tensor)
        if argument.device != where:
            role = sc.symbol(f"{CPU_SCALAR}{positions[old]}", old.dtype)
            roles[old] = role
            return call("full", role, shape=(), dtype=old.dtype)
        order, contiguity = allocation_order(old), old.domain.contiguity
        problem = misfit(order, contiguity, argument.shape, argument.stride())
        if problem is not None:
            raise ValueError(f"argument {positions[old]}: {problem}")
        layout = layout_of(argument)
        if old in targets and layout.distinct < layout.numel:
            raise ValueError(
                f"argument {positions[old]} is written, but elements of shape {layout.shape} share "
                f"memory at strides {layout.strides}; give it memory for each"
            )
        made = tensor(old.dtype, *argument.shape)
        roles[old], layouts[made] = made, layout
        return made

    concrete, mapping = replay(fusion, leaf, lambda s: sc.bind(s, values))
    tensors = [roles[v] for v in fusion.inputs if isinstance(v, TensorView)]
    inputs = (*tensors, *(v for v in concrete.inputs if not isinstance(v, TensorView)))
    concrete = Fusion(_unique(inputs), concrete.outputs, concrete.writes)
    return BoundFusion(concrete, layouts, _roles(fusion, roles), where, mapping)


def _roles(
    fusion: Fusion, roles: Mapping[TensorView, TensorView | Scalar]
) -> tuple[TensorView | Scalar, ...]:
    return tuple(roles[v] if isinstance(v, TensorView) else v for v in fusion.inputs)


def _unique(inputs: Sequence[TensorView | Scalar]) -> tuple[TensorView | Scalar, ...]:
    return tuple(dict.fromkeys(inputs))


def _device(arguments: Sequence[Argument], device: torch.device | None) -> torch.device:
    """The one device of all tensors; a CPU tensor of rank 0 may join CUDA tensors."""
    tensors = [a for a in arguments if isinstance(a, torch.Tensor)]
    found = list(dict.fromkeys(t.device for t in tensors if t.ndim or t.is_cuda))
    if len(found) > 1:
        raise ValueError(f"tensors on several devices: {', '.join(map(str, found))}")
    if found:
        return found[0]
    if device is not None:
        return device
    return (
        torch.device("cuda", 0)
        if not tensors and torch.cuda.is_available()
        else torch.device("cpu")
    )
