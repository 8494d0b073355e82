"""Placements as loop domains, local shapes, DTensor's shards, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch
from torch.distributed.tensor.placement_types import Shard as DTensorShard
from torch.distributed.tensor.placement_types import _StridedShard

from tests.analysis.sharded_fusions import (
    plan_of,
    reshape,
    run,
    tensor,
)
from thunder_fuser.analysis.exchange import owned_points
from thunder_fuser.analysis.placement import (
    Partial,
    Shard,
    Sharding,
    StridedShard,
    device_loop,
    sharded,
)
from thunder_fuser.analysis.propagate import propagate
from thunder_fuser.analysis.sharding import (
    annotated,
    check_sizes,
    local_shape,
)
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.domain import ParallelType
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.mesh import DeviceMesh
from thunder_fuser.ir.tensor import TensorView

TWO = DeviceMesh((2,))


@pytest.mark.parametrize("factor", [1, 2, 3, 5])
def test_shards_are_those_of_dtensor(factor: int) -> None:
    """Against torch's own placements, uneven and empty shards included."""
    theirs = _StridedShard(0, split_factor=factor) if factor > 1 else DTensorShard(0)
    for n in range(1, 31):
        for d in range(2, 7):
            shards, _ = theirs._split_tensor(
                torch.arange(n), d, with_padding=False, contiguous=False
            )
            tv, sharding = tensor(n), Sharding(DeviceMesh((d,)), (sharded(0, factor),))
            if n % factor and -(-n // factor) > d:
                with pytest.raises(ValueError, match="does not make"):
                    check_sizes(sharding, tv.extents, "T0")
                continue
            for rank in range(d):
                want = shards[rank].tolist() if rank < len(shards) else []
                assert [p[0] for p in owned_points(tv, sharding, (rank,))] == want, (n, d)
                assert local_shape(sharding, (n,), (rank,)) == (len(want),), (n, d, rank)


def test_local_shapes_on_two_mesh_dims_are_what_the_devices_hold() -> None:
    rng = random.Random()
    for _ in range(100):
        mesh = DeviceMesh((rng.choice([2, 3]), rng.choice([2, 4])))
        extents = (24, rng.randint(1, 9))
        sharding = Sharding(mesh, (sharded(0, rng.choice([1, 2])), Shard(rng.choice([0, 1]))))
        tv = tensor(*extents)
        for where in mesh.coordinates:
            rows, columns = local_shape(sharding, extents, where)
            assert rows * columns == len(owned_points(tv, sharding, where)), str(sharding)


def test_device_axes_carry_the_parallel_type_of_their_mesh_dim() -> None:
    loop = device_loop(tensor(24, 8).logical, Sharding(DeviceMesh((2, 4)), (Shard(0), Shard(1))))
    assert [(a.parallel_type, a.size) for a in loop] == [
        (ParallelType.DIDY, 2),
        (ParallelType.DIDX, 4),
        (ParallelType.SERIAL, 12),
        (ParallelType.SERIAL, 2),
    ]


def test_a_sharding_prints_as_the_loop_domain() -> None:
    mesh = DeviceMesh((2, 4))
    x = annotated(tensor(24, 8), Sharding(mesh, (StridedShard(0, 3), Shard(1))))
    fusion = Fusion((x,), (call("neg", x),))
    assert str(fusion).splitlines()[0] == (
        "fusion(T0: i32[i24, i8] loop [deviceIdx.y i2, deviceIdx.x i4, i12, i2]) {"
    )


@pytest.mark.parametrize(
    ("annotate", "message"),
    [
        (lambda x, y: {x: Sharding(TWO, (Shard(0), Shard(0)))}, "one placement per mesh dim"),
        (lambda x, y: {x: Sharding(TWO, (Shard(3),))}, "names axis 3 of a tensor of rank 1"),
        (lambda x, y: {x: Sharding(TWO, (StridedShard(0, 0),))}, "must be positive"),
        (
            lambda x, y: {x: Sharding(DeviceMesh((4,)), (Shard(0),))},
            "all tensors of a fusion share",
        ),
        (lambda x, y: {tensor(4): Sharding(TWO, (Shard(0),))}, "outside the fusion"),
        (lambda x, y: {x: Sharding(TWO, (Shard(0),)), y: Sharding(TWO, (Partial(),))}, "partial"),
    ],
)
def test_bad_annotations_say_what_is_wrong(
    annotate: Callable[[TensorView, TensorView], dict[TensorView, Sharding]], message: str
) -> None:
    x = tensor(6)
    y = call("neg", x)
    with pytest.raises(ValueError, match=message):
        propagate(Fusion((x,), (y,)), TWO, annotate(x, y))


def test_symbolic_extents_are_refused_with_advice() -> None:
    x = tensor(sc.symbol("n"))
    with pytest.raises(ValueError, match="bind the symbols"):
        propagate(Fusion((x,), (call("neg", x),)), TWO, {x: Sharding(TWO, (Shard(0),))})


def test_uneven_shards_run_and_uneven_nested_cuts_are_refused() -> None:
    x = tensor(10)
    plan = plan_of(reshape(x, 5, 2), DeviceMesh((3,)), {x: (Shard(0),)})
    assert plan.communications == ()
    assert "  T0: (S(0)), bound as [4] or [2]" in str(plan).splitlines()
    done, _ = run(plan, random.Random())
    assert [len(done.shards[x][w]) for w in plan.mesh.coordinates] == [4, 4, 2]
    with pytest.raises(ValueError, match="cut twice"):
        plan_of(call("neg", x), DeviceMesh((3, 2)), {x: (Shard(0), Shard(0))})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"shape": ()}, "at least one device"),
        ({"shape": (2, 0)}, "at least one device"),
        ({"shape": (2,), "devices": (0, 1, 2)}, "holds 2 devices, got 3 ranks"),
        ({"shape": (2,), "devices": (1, 1)}, "names a device twice"),
        ({"shape": (2, 2), "names": ("dp",)}, "needs 2 different names"),
    ],
)
def test_bad_meshes_are_refused(arguments: dict[str, tuple[int, ...]], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        DeviceMesh(**arguments)  # type: ignore[arg-type]


def test_a_mesh_is_a_value_and_prints() -> None:
    mesh = DeviceMesh((2, 4), names=("dp", "tp"))
    assert mesh == DeviceMesh((2, 4), names=("dp", "tp"))
    assert hash(mesh) == hash(DeviceMesh((2, 4), names=("dp", "tp")))
    assert str(mesh) == "mesh[dp=2, tp=4]"
    assert str(DeviceMesh((2,), devices=(3, 1))) == "mesh[2] of [3, 1]"
