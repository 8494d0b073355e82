"""Small fusions for the tests of the analysis."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from math import prod

import torch

from thunder_fuser.analysis.placement import Placement, Sharding
from thunder_fuser.analysis.propagate import ShardingPlan, propagate
from thunder_fuser.analysis.simulate import Run, simulate
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import build
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.mesh import DeviceMesh
from thunder_fuser.ir.tensor import TensorView


def tensor(*extents: int | sc.Scalar) -> TensorView:
    """An int32 input: integers compare bit for bit whatever the order of additions."""
    return build.tensor(DataType.Int32, *extents)


def shape(*extents: int) -> tuple[sc.Scalar, ...]:
    return tuple(sc.constant(e) for e in extents)


def reshape(tv: TensorView, *extents: int) -> TensorView:
    return call("reshape", tv, new_shape=shape(*extents))


def cut(tv: TensorView, dim: int, start: int, end: int, stride: int = 1) -> TensorView:
    """`tv[..., start:end:stride, ...]` along `dim`."""
    starts, ends, strides = [0] * tv.ndim, list(tv.shape), [1] * tv.ndim
    starts[dim], ends[dim], strides[dim] = start, end, stride
    bounds = {"start_indices": shape(*starts), "end_indices": shape(*ends)}
    return call("slice", tv, **bounds, strides=shape(*strides))


def cat(*tensors: TensorView, dim: int = 0) -> TensorView:
    return call("cat", *tensors, dim=dim)


def permute(tv: TensorView, *dims: int) -> TensorView:
    return call("permute", tv, dims=dims)


def fusion_of(*outputs: TensorView) -> Fusion:
    """The fusion with these outputs; inputs in the order in which they are met."""
    met = Fusion((), outputs).tensors
    return Fusion(tuple(tv for tv in met if tv.definition is None), outputs)


def plan_of(
    outputs: TensorView | Sequence[TensorView],
    mesh: DeviceMesh,
    placements: Mapping[TensorView, tuple[Placement, ...]],
) -> ShardingPlan:
    outputs = (outputs,) if isinstance(outputs, TensorView) else tuple(outputs)
    annotations = {tv: Sharding(mesh, p) for tv, p in placements.items()}
    return propagate(fusion_of(*outputs), mesh, annotations)


def run(plan: ShardingPlan, rng: random.Random) -> tuple[Run, dict[TensorView, torch.Tensor]]:
    """The simulated run on fresh integers, and the global value of every input."""
    values = {
        tv: [rng.randrange(-99, 100) for _ in range(prod(tv.shape))]
        for tv in plan.fusion.tensors
        if tv.definition is None
    }
    tensors = {tv: torch.tensor(v, dtype=torch.int32).reshape(tv.shape) for tv, v in values.items()}
    return simulate(plan, values), tensors


def expected(output: TensorView, inputs: Mapping[TensorView, torch.Tensor]) -> torch.Tensor:
    """The global value by torch, op by op."""
    known = dict(inputs)
    for tv in fusion_of(output).tensors:
        if tv.definition is not None:
            operands = [known[v] for v in tv.definition.tensors]
            known[tv] = _torch(tv, operands)
    return known[output]


def checked(plan: ShardingPlan, output: TensorView) -> None:
    """The simulated devices give torch's global result."""
    done, inputs = run(plan, random.Random())
    whole = torch.tensor(done.whole(output)).reshape(output.shape)
    assert torch.equal(whole, expected(output, inputs).to(whole.dtype))
    assert len(done.traffic) >= len(plan.communications)


def _torch(tv: TensorView, operands: Sequence[torch.Tensor]) -> torch.Tensor:
    assert tv.definition is not None
    x, attr = operands[0], tv.definition.attr
    match tv.definition.op.name:
        case "reshape":
            return x.reshape(tv.shape)
        case "slice":
            bounds = (_ints(attr(n)) for n in ("start_indices", "end_indices", "strides"))
            return x[tuple(slice(*b) for b in zip(*bounds, strict=True))]
        case "pad":
            return torch.nn.functional.pad(x, _ints(attr("pad_widths")), value=7)
        case "flip":
            return x.flip(_ints(attr("dims")))
        case "broadcast":
            return x.reshape(tv.shape)
        case "cat":
            return torch.cat(list(operands), _int(attr("dim")))
        case "permute":
            return x.permute(_ints(attr("dims")))
        case "sum":
            return x.sum(_ints(attr("dims")), dtype=torch.int64)
        case "expand":
            return x.expand(tv.shape)
        case "neg":
            return -x
        case "add":
            return operands[0] + operands[1]
        case "mul":
            return operands[0] * operands[1]
    raise AssertionError(tv.definition.op.name)


def _int(value: object) -> int:
    assert isinstance(value, int)
    return value


def _ints(values: object) -> list[int]:
    assert isinstance(values, tuple)
    return [v if isinstance(v, int) else sc.static_int(v) or 0 for v in values]
