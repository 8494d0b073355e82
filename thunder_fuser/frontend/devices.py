"""Definitions on a mesh of several devices: refused to run, simulated in one process instead."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from thunder_fuser.analysis.simulate import simulate
from thunder_fuser.frontend.arguments import check_arguments
from thunder_fuser.frontend.leaf import Definition
from thunder_fuser.ir.scalar import Number, Scalar, Symbol
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.dtypes import TORCH_DTYPES


def require_one_device(definition: Definition) -> None:
    """Raises RuntimeError for a definition on a mesh of more than one device."""
    mesh = definition.mesh
    if mesh is not None and mesh.size > 1:
        raise RuntimeError(
            f"the definition is placed on {mesh}: running on {mesh.size} devices is not supported "
            "yet; fd.explain() shows its sharding plan, fd.simulate(inputs) runs the plan in this "
            "process, and without fd.define_mesh the fusion runs on one device"
        )


def simulate_definition(definition: Definition, inputs: Sequence[object]) -> list[torch.Tensor]:
    """The outputs, put together from the shards that every simulated device computes of global
    `inputs`, which stay as they are. An element is a Python number: this is for small tensors.

    Raises RuntimeError without a mesh of several devices, ValueError or TypeError for arguments
    that do not fit and for an op that the simulator has no rule for.
    """
    plan = definition.sharding
    if plan is None:
        raise RuntimeError("nothing to simulate: the definition has no mesh of several devices")
    arguments = check_arguments(definition.specs, inputs)
    values: dict[TensorView, list[Number]] = {}
    scalars: dict[Scalar, Number] = {}
    for name, value in zip(plan.fusion.inputs, arguments, strict=False):  # drawn numbers come last
        if isinstance(value, torch.Tensor):
            assert isinstance(name, TensorView)
            values[name] = value.flatten().tolist()
        else:
            assert isinstance(name, Symbol)
            scalars[name] = value
    run = simulate(plan, values, scalars)
    return [
        torch.tensor(run.whole(tv), dtype=TORCH_DTYPES[tv.dtype], device="cpu").reshape(tv.shape)
        for tv in plan.fusion.outputs
    ]
