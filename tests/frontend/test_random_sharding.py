"""Random definitions with random placements: simulated devices give torch's global result."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import torch

from tests.frontend.fusions import new_cache
from thunder_fuser.frontend import DataType, FusionDefinition

Value = tuple[Any, torch.Tensor]  # a handle and what eager torch makes of it
MAX_ELEMENTS = 300  # of one tensor: the simulator goes element by element


def placements(rng: random.Random, rank: int, mesh: tuple[int, ...]) -> list[str]:
    axis = rng.randrange(rank)
    choices = ["R", f"S({axis})", f"S({axis}, strided by 2)", "P(sum)"]
    return [rng.choice(choices) for _ in mesh]


def grown(fd: FusionDefinition, rng: random.Random, x: Value, others: list[Value]) -> Value:
    """One random op on `x`, which has a rank of at least 1."""
    handle, value = x
    dim, ops = rng.randrange(value.ndim), fd.ops
    match rng.choice(["neg", "add", "sum", "permute", "flat", "unsqueeze", "cat", "slice", "flip"]):
        case "add":
            fitting = [o for o in others if o[1].shape == value.shape]
            if fitting:
                other, second = rng.choice(fitting)
                return ops.add(handle, other), value + second
        case "sum":
            return ops.cast(ops.sum(handle, [dim]), DataType.Int32), value.sum(dim).int()
        case "permute":
            dims = rng.sample(range(value.ndim), value.ndim)
            return ops.permute(handle, dims), value.permute(dims)
        case "flat":
            return ops.reshape(handle, [value.numel()]), value.reshape(-1)
        case "unsqueeze":
            flags = [k == dim for k in range(value.ndim + 1)]
            return ops.broadcast(handle, flags), value.unsqueeze(dim)
        case "cat":
            return ops.cat([handle, ops.neg(handle)], dim), torch.cat([value, -value], dim)
        case "slice" if value.shape[dim] > 1:
            starts = [int(k == dim) for k in range(value.ndim)]
            return ops.slice(handle, starts, list(value.shape)), value.narrow(
                dim, 1, value.shape[dim] - 1
            )
        case "flip":
            return ops.flip(handle, [dim]), value.flip([dim])
    return ops.neg(handle), -value


def program(fd: FusionDefinition, rng: random.Random) -> tuple[list[Value], list[Value]]:
    """Inputs and outputs of a random program on a random mesh. ValueError: a refused placement."""
    mesh = rng.choice([(2,), (3,), (2, 2), (4,), (8,)])
    fd.define_mesh(mesh)
    inputs: list[Value] = []
    for _ in range(2):
        shape = [rng.choice([1, 2, 3, 4, 6, 8]) for _ in range(rng.randint(1, 3))]
        while 2 * prod(shape) > MAX_ELEMENTS:
            shape.pop()
        handle = fd.define_tensor(shape, contiguity=True, dtype=DataType.Int32)
        if rng.random() < 0.8:
            fd.place(handle, placements(rng, len(shape), mesh))
        inputs.append((handle, torch.randint(-9, 10, shape, dtype=torch.int32)))
    values = list(inputs)
    for _ in range(6):
        candidates = [v for v in values if v[1].ndim and 2 * prod(v[1].shape) <= MAX_ELEMENTS]
        made = grown(fd, rng, rng.choice(candidates), values)
        if made[1].ndim and rng.random() < 0.15:
            fd.place(made[0], ["R" if p[0] == "P" else p for p in placements(rng, 1, mesh)])
        values.append(made)
    outputs = values[len(inputs) :]
    for handle, _ in outputs:
        fd.add_output(handle)
    return inputs, outputs


def test_random_definitions_simulate_to_the_global_result() -> None:
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng, ran, sent = random.Random(seed), 0, 0
    for _ in range(100):
        try:
            with FusionDefinition(cache=new_cache()) as fd:
                inputs, outputs = program(fd, rng)
        except ValueError:  # uneven cuts of an uneven axis and the like: refused where written
            continue
        got = fd.simulate([value for _, value in inputs])
        for result, (_, want) in zip(got, outputs, strict=True):
            assert torch.equal(result, want), fd.explain()
        plan = fd.leaf.definition.sharding
        assert plan is not None
        ran, sent = ran + 1, sent + bool(plan.communications)
    assert ran > 50
    assert sent > 10
