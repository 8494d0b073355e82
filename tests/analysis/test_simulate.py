"""Random programs on simulated devices against torch's global result, bit for bit."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from tests.analysis.sharded_fusions import (
    cat,
    cut,
    expected,
    permute,
    plan_of,
    reshape,
    run,
    shape,
    tensor,
)
from thunder_fuser.analysis.placement import Partial, Placement, Replicate, Shard, sharded
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.mesh import DeviceMesh
from thunder_fuser.ir.tensor import TensorView


def _factor_pair(rng: random.Random, n: int) -> tuple[int, int]:
    a = rng.choice([f for f in range(1, n + 1) if n % f == 0])
    return a, n // a


def _step(rng: random.Random, tv: TensorView, others: list[TensorView]) -> TensorView:
    """One random op on `tv`; `others` are earlier tensors to combine with."""
    kinds = ("reshape", "reshape", "slice", "slice", "cat", "permute", "neg", "add")
    kind = rng.choice((*kinds, "pad", "flip", "every second", "unsqueeze and expand"))
    dim = rng.randrange(tv.ndim)
    size = tv.shape[dim]
    if kind == "reshape":
        if tv.ndim > 1 and rng.random() < 0.5:
            dim = rng.randrange(tv.ndim - 1)
            merged = tv.shape[dim] * tv.shape[dim + 1]
            return reshape(tv, *tv.shape[:dim], merged, *tv.shape[dim + 2 :])
        if tv.ndim < 4:
            return reshape(tv, *tv.shape[:dim], *_factor_pair(rng, size), *tv.shape[dim + 1 :])
    if kind == "slice" and size > 1:
        length = rng.choice([n for n in range(1, size) if rng.random() < 0.4 or size % n == 0])
        start = rng.choice([0, size - length, length * rng.randrange(size // length)])
        return cut(tv, dim, start, start + length)
    if kind == "cat" and size * 2 <= 16:
        return cat(tv, call("neg", tv), dim=dim)
    if kind == "permute" and tv.ndim > 1:
        dims = list(range(tv.ndim))
        rng.shuffle(dims)
        return permute(tv, *dims)
    if kind == "pad" and size <= 12:
        widths = [0] * (2 * (tv.ndim - dim))
        widths[-2:] = rng.choice([(2, 0), (size, 0), (0, size), (1, 3), (-1, 1), (4, -1)])
        if size > 1:
            return call("pad", tv, sc.constant(7), pad_widths=shape(*widths))
    if kind == "flip":
        return call("flip", tv, dims=(dim,))
    if kind == "every second" and size > 2:
        return cut(tv, dim, rng.randrange(2), size, stride=2)
    if kind == "unsqueeze and expand" and tv.ndim < 3:
        flags = tuple(k == dim for k in range(tv.ndim + 1))
        wide = [*tv.shape[:dim], rng.choice([1, 2, 4]), *tv.shape[dim:]]
        return call("expand", call("broadcast", tv, is_broadcast_dim=flags), shape=shape(*wide))
    same = [o for o in others if o.shape == tv.shape]
    return call("add", tv, rng.choice(same)) if same and kind == "add" else call("neg", tv)


def _placement(rng: random.Random, shape: tuple[int, ...], count: int) -> Placement:
    if rng.random() < 0.1:
        return Replicate()
    axis = rng.randrange(len(shape))
    factors = [m for m in range(1, shape[axis] + 1) if shape[axis] % (m * count) == 0]
    return sharded(axis, rng.choice(factors)) if factors and rng.random() < 0.7 else Shard(axis)


@pytest.mark.parametrize("devices", [2, 3, 4, 8])
def test_random_programs_equal_the_global_result(devices: int) -> None:
    seed = random.randrange(1 << 30)
    print(f"{devices} devices: seed {seed}")
    rng = random.Random(seed)
    mesh = DeviceMesh((devices,))
    aligned = 0
    for _ in range(90):
        x = tensor(*[rng.choice([2, 3, 4, 6, 8, 12]) for _ in range(rng.randint(1, 2))])
        made = [x]
        for _ in range(rng.randint(1, 4)):
            made.append(_step(rng, made[-1], made))
        plan = plan_of(made[-1], mesh, {x: (_placement(rng, x.shape, devices),)})
        done, inputs = run(plan, rng)
        for tv in made:
            whole = torch.tensor(done.whole(tv)).reshape(tv.shape)
            assert torch.equal(whole, expected(tv, inputs).to(whole.dtype)), str(plan)
        for traffic in done.traffic:
            assert 4 * traffic.received <= traffic.step.bytes, str(plan)
        aligned += not plan.communications
    assert aligned > 10


@pytest.mark.parametrize("shape", [(2, 2), (2, 3), (2, 2, 2)])
def test_random_programs_on_meshes_of_higher_rank(shape: tuple[int, ...]) -> None:
    seed = random.randrange(1 << 30)
    print(f"mesh {shape}: seed {seed}")
    rng = random.Random(seed)
    mesh = DeviceMesh(shape)
    for _ in range(60):
        x = tensor(*[rng.choice([4, 6, 8, 12, 24]) for _ in range(rng.randint(1, 2))])
        made = [x]
        for _ in range(rng.randint(1, 3)):
            made.append(_step(rng, made[-1], made))
        placements: list[Placement] = []
        used: dict[int, int] = {}
        for count in shape:
            choice = rng.choice([*range(x.ndim), None])
            cuts = used.get(choice, 1) * count if choice is not None else 1
            fits = choice is not None and x.shape[choice] % cuts == 0
            placements.append(Shard(choice) if fits and choice is not None else Replicate())
            if fits and choice is not None:
                used[choice] = cuts
        plan = plan_of(made[-1], mesh, {x: tuple(placements)})
        done, inputs = run(plan, rng)
        whole = torch.tensor(done.whole(made[-1])).reshape(made[-1].shape)
        assert torch.equal(whole, expected(made[-1], inputs).to(whole.dtype)), str(plan)
        for traffic in done.traffic:
            assert 4 * traffic.received <= traffic.step.bytes, str(plan)


def test_annotated_outputs_are_reached_from_anywhere() -> None:
    """Both ends fixed at random: every kind of resharding runs and gives the global result."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    rng = random.Random(seed)
    kinds = set()
    for _ in range(150):
        mesh = DeviceMesh(rng.choice([(2,), (3,), (2, 2), (4,)]))
        x = tensor(*[rng.choice([4, 6, 8, 12]) for _ in range(2)])
        y = _step(rng, x, [x])
        ends = {}
        for tv in (x, y):
            placements = [_placement(rng, tv.shape, mesh.shape[0])]
            placements += [Replicate()] * (mesh.ndim - 1)
            if mesh.ndim == 2 and rng.random() < 0.5:
                placements.reverse()
            ends[tv] = tuple(placements)
        if rng.random() < 0.2:
            ends[x] = tuple(Partial() if i == 0 else Replicate() for i in range(mesh.ndim))
        plan = plan_of(y, mesh, ends)
        done, inputs = run(plan, rng)
        whole = torch.tensor(done.whole(y)).reshape(y.shape)
        assert torch.equal(whole, expected(y, inputs).to(whole.dtype)), str(plan)
        kinds |= {str(t.step.kind) for t in done.traffic}
        for traffic in done.traffic:
            assert 4 * traffic.received <= traffic.step.bytes, str(plan)
    assert kinds >= {"all-to-all", "all-gather", "all-reduce", "reduce-scatter"}


def test_reductions_over_a_cut_axis_sum_over_devices() -> None:
    rng = random.Random()
    mesh = DeviceMesh((2, 3))
    x = tensor(4, 6)
    total = call("sum", x, dims=(1,))
    centred = call("add", x, call("expand", reshape(total, 4, 1), shape=shape(4, 6)))
    plan = plan_of(centred, mesh, {x: (Shard(0), Shard(1))})
    done, inputs = run(plan, rng)
    value = inputs[x]
    whole = torch.tensor(done.whole(centred)).reshape(4, 6)
    assert torch.equal(whole, value + value.sum(1, keepdim=True))
    assert [str(t.step.kind) for t in done.traffic] == ["all-reduce"]


@pytest.mark.parametrize(
    ("name", "reference"),
    [("sum", torch.sum), ("prod", torch.prod), ("max", torch.amax), ("min", torch.amin)],
)
@pytest.mark.parametrize("devices", [2, 4])
def test_every_combining_reduction_runs_over_devices(
    name: str, reference: Callable[..., torch.Tensor], devices: int
) -> None:
    """Uneven on purpose: of 4 devices the last one holds no element of 5."""
    x = tensor(3, 5)
    y = call(name, x, dims=(1,))
    plan = plan_of(y, DeviceMesh((devices,)), {x: (Shard(1),), y: (Replicate(),)})
    done, inputs = run(plan, random.Random())
    want = reference(inputs[x].to(torch.int64), 1)
    assert torch.equal(torch.tensor(done.whole(y)).to(torch.int64), want)
    assert [str(t.step.kind) for t in done.traffic] == ["all-reduce"]


def test_a_missing_element_is_found() -> None:
    """The simulator itself: a plan whose communication is left out fails loudly."""
    from dataclasses import replace

    from thunder_fuser.analysis.simulate import simulate

    x = tensor(6)
    y = reshape(x, 3, 2)
    plan = plan_of(y, DeviceMesh((2,)), {x: (Shard(0),), y: (Shard(0),)})
    assert plan.communications
    silent = replace(plan, edges=tuple(replace(e, before=()) for e in plan.edges))
    with pytest.raises(ValueError, match="the plan did not bring it"):
        simulate(silent, {x: list(range(6))})
