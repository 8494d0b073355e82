"""The four cases of NVIDIA/Fuser#3987, their misaligned counterparts, and what follows."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from tests.analysis.sharded_fusions import (
    cat,
    checked,
    cut,
    permute,
    plan_of,
    reshape,
    run,
    shape,
    tensor,
)
from tests.function_calls import entered
from thunder_fuser.analysis.communication import Kind
from thunder_fuser.analysis.edge import axis_edges, forward
from thunder_fuser.analysis.placement import (
    Partial,
    Placement,
    Replicate,
    Shard,
    Sharding,
    StridedShard,
)
from thunder_fuser.analysis.propagate import ShardingPlan, propagate
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import build
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.mesh import DeviceMesh
from thunder_fuser.ir.tensor import TensorView

TWO = DeviceMesh((2,))


def kinds(plan: ShardingPlan) -> list[str]:
    return [str(step.kind) for step in plan.communications]


def placement(plan: ShardingPlan, tv: TensorView) -> Placement:
    (found,) = plan.shardings[tv].placements
    return found


# ------------------------------------------------------------------ the four cases


@pytest.mark.parametrize("d", [2, 3, 4, 8])
def test_case_1_split_reshape_is_the_same_storage(d: int) -> None:
    x = tensor(2, 3, 4 * d * 6)
    y = reshape(x, 2, 3, 4 * d, 6)
    plan = plan_of(y, DeviceMesh((d,)), {x: (Shard(2),)})
    assert placement(plan, y) == Shard(2)
    assert kinds(plan) == []
    done, _ = run(plan, random.Random())
    for where in plan.mesh.coordinates:
        assert done.buffer(x, where) == done.buffer(y, where)
    checked(plan, y)


@pytest.mark.parametrize("d", [2, 3, 4, 8])
def test_case_2_merge_reshape_is_the_same_storage(d: int) -> None:
    x = tensor(2, 3, 4 * d, 6)
    y = reshape(x, 2, 3, 4 * d * 6)
    plan = plan_of(y, DeviceMesh((d,)), {x: (Shard(2),)})
    assert placement(plan, y) == Shard(2)
    assert kinds(plan) == []
    done, _ = run(plan, random.Random())
    for where in plan.mesh.coordinates:
        assert done.buffer(x, where) == done.buffer(y, where)
    checked(plan, y)


@pytest.mark.parametrize("d", [2, 3, 4, 8])
@pytest.mark.parametrize("layout", ["inner", "blocks"])
def test_case_3_slice_is_a_local_view_at_s_over_d(d: int, layout: str) -> None:
    h = 4 * d
    x = tensor(5, 3 * h)
    pieces = [cut(x, 1, m * h, (m + 1) * h) for m in range(3)]
    factor = 3 if layout == "blocks" else 3 * h // d
    plan = plan_of(pieces, DeviceMesh((d,)), {x: (StridedShard(1, factor),)})
    assert kinds(plan) == []
    done, inputs = run(plan, random.Random())
    for m, piece in enumerate(pieces):
        want = Shard(1) if layout == "blocks" else StridedShard(1, h // d)
        assert placement(plan, piece) == want
        assert plan.edges[m].starts == (0, m * h // d)
        for where in plan.mesh.coordinates:
            local = torch.tensor(done.buffer(x, where)).reshape(5, 3 * h // d)
            window = local[:, m * h // d : (m + 1) * h // d]
            assert done.buffer(piece, where) == window.flatten().tolist()
        whole = torch.tensor(done.whole(piece)).reshape(5, h)
        assert torch.equal(whole, inputs[x][:, m * h : (m + 1) * h].to(whole.dtype))


@pytest.mark.parametrize("d", [2, 3, 4, 8])
@pytest.mark.parametrize("layout", ["inner", "blocks"])
def test_case_4_cat_is_the_local_cat(d: int, layout: str) -> None:
    h = 4 * d
    pieces = [tensor(5, h) for _ in range(3)]
    y = cat(*pieces, dim=1)
    each = Shard(1) if layout == "blocks" else StridedShard(1, h // d)
    plan = plan_of(y, DeviceMesh((d,)), {piece: (each,) for piece in pieces})
    assert placement(plan, y) == StridedShard(1, 3 if layout == "blocks" else 3 * h // d)
    assert kinds(plan) == []
    done, _ = run(plan, random.Random())
    for where in plan.mesh.coordinates:
        locals_ = [torch.tensor(done.buffer(p, where)).reshape(5, h // d) for p in pieces]
        assert done.buffer(y, where) == torch.cat(locals_, 1).flatten().tolist()
    checked(plan, y)


@pytest.mark.parametrize("case", [1, 2, 3, 4])
def test_the_four_cases_backward(case: int) -> None:
    """The consumer is annotated; the producer takes the layout that needs no communication."""
    d, h = 4, 16
    mesh = DeviceMesh((d,))
    x = tensor(*{1: (h,), 2: (8, 2), 3: (3 * h,), 4: (h,)}[case])
    y = {
        1: lambda: reshape(x, 8, 2),
        2: lambda: reshape(x, h),
        3: lambda: cut(x, 0, h, 2 * h),
        4: lambda: cat(x, x, x),
    }[case]()
    wanted: Placement = StridedShard(0, 3) if case == 4 else Shard(0)
    plan = plan_of(y, mesh, {y: (wanted,)})
    assert placement(plan, x) == (StridedShard(0, 3) if case == 3 else Shard(0))
    assert kinds(plan) == []
    checked(plan, y)


def test_block_layout_is_aligned_for_uneven_heads() -> None:
    """[3, d, ceil(h/d)] with d not dividing h (docs/axes.md, B2), both directions."""
    for h, d in ((5, 2), (7, 3), (10, 4)):
        x = tensor(3 * h)
        pieces = [cut(x, 0, m * h, (m + 1) * h) for m in range(3)]
        mesh = DeviceMesh((d,))
        plan = plan_of(pieces, mesh, {x: (StridedShard(0, 3),)})
        assert [placement(plan, p) for p in pieces] == [Shard(0)] * 3
        assert kinds(plan) == []
        back = plan_of(pieces, mesh, {p: (Shard(0),) for p in pieces})
        assert placement(back, x) == StridedShard(0, 3)
        assert kinds(back) == []
        for piece in pieces:
            checked(plan, piece)


# ------------------------------------------------------------------ misaligned


@pytest.mark.parametrize(
    ("make", "start", "kind", "size"),
    [
        (lambda x: reshape(x, 3, 2), Shard(0), Kind.ALL_TO_ALL, 12),  # d does not divide a
        (lambda x: reshape(x, 2, 3), StridedShard(0, 3), Kind.ALL_TO_ALL, 12),  # inner split
        (lambda x: cut(x, 0, 1, 5), StridedShard(0, 3), Kind.RING, 8),  # d does not divide s
        (lambda x: cut(x, 0, 1, 6), Shard(0), Kind.ALL_TO_ALL, None),  # plain shard under a slice
        (lambda x: cat(x, cut(x, 0, 0, 1), x), StridedShard(0, 3), Kind.RING, None),
    ],
)
def test_misaligned_edges_take_the_cheapest_collective(
    make: Callable[[TensorView], TensorView], start: Placement, kind: Kind, size: int | None
) -> None:
    x = tensor(6)
    y = make(x)
    plan = plan_of(y, TWO, {x: (start,)})
    assert kind in {step.kind for step in plan.communications}
    if size is not None:
        assert [step.bytes for step in plan.communications] == [size]
    checked(plan, y)


def test_cat_of_one_tensor_twice_is_aligned_on_one_edge_only() -> None:
    x = tensor(3)
    y = cat(x, x)
    plan = plan_of(y, TWO, {x: (StridedShard(0, 2),)})
    assert [e.is_aligned for e in plan.edges] == [True, False]
    (step,) = plan.communications
    assert (step.kind, step.distance) == (Kind.RING, 1)
    checked(plan, y)


def test_a_plain_shard_of_fused_qkv_asks_for_the_block_layout_upstream() -> None:
    """What is annotated is Q, K and V; the fused tensor, unannotated, becomes [3, d, h/d]."""
    w = tensor(4, 24)
    fused = call("neg", w)
    q, k, v = (cut(fused, 1, 8 * m, 8 * m + 8) for m in range(3))
    plan = plan_of((q, k, v), TWO, {q: (Shard(1),), k: (Shard(1),), v: (Shard(1),)})
    assert placement(plan, w) == StridedShard(1, 3)
    assert kinds(plan) == []


def test_every_pair_of_ends_takes_the_collective_of_the_table() -> None:
    ends: list[tuple[Placement, Placement, list[str]]] = [
        (Shard(0), Shard(0), []),
        (Shard(0), Replicate(), ["all-gather"]),
        (Replicate(), Shard(0), []),
        (Partial(), Replicate(), ["all-reduce"]),
        (Partial(), Shard(1), ["reduce-scatter"]),
        (Shard(0), Shard(1), ["all-to-all"]),
    ]
    for source, target, want in ends:
        x = tensor(4, 6)
        y = call("neg", x)
        plan = plan_of(y, TWO, {x: (source,), y: (target,)})
        assert kinds(plan) == want, (source, target)
        checked(plan, y)


def test_row_parallel_sum_reduces_once() -> None:
    x, b = tensor(4, 6), tensor(4)
    total = call("sum", x, dims=(1,))
    y = call("add", total, b)
    z = call("mul", total, b)
    plan = plan_of((y, z), TWO, {x: (Shard(1),)})
    assert placement(plan, total) == Partial("sum")
    assert kinds(plan) == ["all-reduce"]
    annotated = plan_of(total, TWO, {x: (Shard(1),), total: (Shard(0),)})
    assert kinds(annotated) == ["reduce-scatter"]
    checked(annotated, total)


def test_a_written_value_lies_as_its_target() -> None:
    x, y = tensor(4, 6), tensor(4, 6)
    value = call("add", x, y)
    fusion = Fusion((x, y), (), (Write(value, x),))
    plan = propagate(fusion, TWO, {x: Sharding(TWO, (Shard(0),))})
    assert plan.shardings[value] == plan.shardings[x]
    backward = propagate(fusion, TWO, {y: Sharding(TWO, (Shard(1),))})
    assert placement(backward, x) == Shard(1)
    ends = {x: Sharding(TWO, (Shard(0),)), value: Sharding(TWO, (Shard(1),))}
    with pytest.raises(ValueError, match="is written into an input sharded"):
        propagate(fusion, TWO, ends)


# ------------------------------------------------------------------ meshes of rank two


def test_two_mesh_dims_on_one_axis_survive_the_split_into_heads() -> None:
    mesh = DeviceMesh((2, 4))
    x = tensor(96)
    y = reshape(x, 16, 6)
    for placements in ((Shard(0), Shard(0)), (StridedShard(0, 4), Shard(0))):
        plan = plan_of(y, mesh, {x: placements})
        assert plan.shardings[y].placements == placements
        assert kinds(plan) == []
        checked(plan, y)


def test_fsdp_times_tensor_parallel_gathers_on_one_dim_only() -> None:
    mesh = DeviceMesh((2, 2), names=("fsdp", "tp"))
    w = tensor(8, 4)
    y = call("neg", w)
    plan = plan_of(y, mesh, {w: (StridedShard(0, 2), Shard(0)), y: (Replicate(), Shard(0))})
    assert [(s.kind, s.mesh_dim) for s in plan.communications] == [(Kind.ALL_GATHER, 0)]
    checked(plan, y)


# ------------------------------------------------------------------ RoPE under tensor parallelism


def _rotate(x: TensorView, cos: TensorView, sin: TensorView) -> TensorView:
    """x * cos + cat(-x2, x1) * sin over the last axis; cos and sin are [seq, size]."""
    last, half = x.ndim - 1, x.shape[-1] // 2
    x1, x2 = cut(x, last, 0, half), cut(x, last, half, 2 * half)
    turned = cat(call("neg", x2), x1, dim=last)
    return call("add", call("mul", x, cos), call("mul", turned, sin))


@pytest.mark.parametrize("d", [2, 4])
def test_rope_with_groups_on_devices_needs_no_communication(d: int) -> None:
    """Fused QKV as in LitGPT: [B, S, groups * (q_per_kv + 2) * size], groups on the mesh."""
    b, s, groups, q_per_kv, size = 1, 3, d, 2, 4
    total = q_per_kv + 2
    qkv = tensor(b, s, groups * total * size)
    cos, sin = tensor(s, size), tensor(s, size)
    grouped = permute(reshape(qkv, b, s, groups, total, size), 0, 2, 3, 1, 4)
    q, k, v = (
        cut(grouped, 2, *w) for w in ((0, q_per_kv), (q_per_kv, total - 1), (total - 1, total))
    )
    q = _rotate(reshape(q, b, groups * q_per_kv, s, size), cos, sin)
    expanded = call("expand", k, shape=shape(b, groups, q_per_kv, s, size))
    k = _rotate(reshape(expanded, b, groups * q_per_kv, s, size), cos, sin)
    v = reshape(v, b, groups, s, size)
    plan = plan_of((q, k, v), DeviceMesh((d,)), {qkv: (Shard(2),)})
    assert [placement(plan, tv) for tv in (q, k, v)] == [Shard(1)] * 3
    assert kinds(plan) == []
    assert "all-" not in str(plan)
    assert "ring" not in str(plan)
    for tv in (q, k, v):
        checked(plan, tv)


def test_rope_on_the_block_layout_needs_no_communication() -> None:
    """[3, d, h/d]: slices of the sharded axis itself, then heads, then RoPE and the cat back."""
    d, s, heads, size = 2, 3, 4, 4
    h = heads * size
    qkv = tensor(s, 3 * h)
    cos, sin = tensor(s, size), tensor(s, size)
    parts = []
    for m in range(3):
        x = permute(reshape(cut(qkv, 1, m * h, (m + 1) * h), s, heads, size), 1, 0, 2)
        x = _rotate(x, cos, sin) if m < 2 else x
        parts.append(reshape(permute(x, 1, 0, 2), s, h))
    y = cat(*parts, dim=1)
    plan = plan_of(y, DeviceMesh((d,)), {qkv: (StridedShard(1, 3),)})
    assert placement(plan, y) == StridedShard(1, 3)
    assert kinds(plan) == []
    assert "local view at [0, 8]" in str(plan)
    checked(plan, y)
    plain = plan_of(y, DeviceMesh((d,)), {qkv: (Shard(1),)})
    assert plain.communications
    checked(plain, y)


def test_several_reshapes_decide_each_for_itself() -> None:
    """One tensor, three readers: compatible, compatible in another way, and not."""
    x = tensor(24)
    y, z, w = reshape(x, 4, 6), reshape(x, 2, 12), reshape(x, 3, 8)
    plan = plan_of((y, z, w), TWO, {x: (Shard(0),)})
    assert [e.is_aligned for e in plan.edges] == [True, True, False]
    deep = reshape(reshape(permute(reshape(x, 4, 2, 3), 0, 2, 1), 4, 6), 24)
    chain = plan_of(deep, TWO, {x: (Shard(0),)})
    assert kinds(chain) == []
    checked(chain, deep)
    checked(plan, w)


# ------------------------------------------------------------------ text, cost


def test_the_plan_explains_every_edge() -> None:
    x = tensor(24)
    y = cut(x, 0, 8, 16)
    assert str(plan_of(call("neg", y), TWO, {x: (StridedShard(0, 3),)})).splitlines() == [
        "sharding on mesh[2]",
        "  T0: (S(0, strided by 3)), bound as [12]",
        "  T1: (S(0)) = slice",
        "    T0: (S(0, strided by 3)) aligned, no communication, local view at [4]",
        "  T2: (S(0)) = neg",
        "    T1: (S(0)) aligned, no communication",
    ]
    ring = plan_of(cut(x, 0, 7, 16), TWO, {x: (StridedShard(0, 12),)})
    assert (
        "    T0: ring rotation by 1 on mesh dim 0, 20 bytes: "
        "the window starts 1 blocks past an aligned one (docs/axes.md, B3)"
    ) in str(ring).splitlines()
    y = reshape(tensor(6), 3, 2)
    (source,) = y.definition.tensors if y.definition else ()
    moved = plan_of(y, TWO, {source: (Shard(0),), y: (Shard(0),)})
    assert str(moved).splitlines()[-1] == (
        "    T0: all-to-all on mesh dim 0, 16 bytes: in the consumer's axes "
        "the producer is on device ((2*i0 + i1)/3), the consumer on (i0/2)"
    )


def test_an_edge_is_decided_in_a_hundred_calls() -> None:
    """11 to 20 us; how long the axes are does not matter."""
    mesh = DeviceMesh((4,))
    x, wide = tensor(2, 3, 4096), tensor(2, 3, 3 * 4096)
    cases = [
        (reshape(x, 2, 3, 32, 128), Sharding(mesh, (Shard(2),))),
        (cut(wide, 2, 4096, 8192), Sharding(mesh, (StridedShard(2, 3),))),
        (call("neg", x), Sharding(mesh, (Shard(2),))),
    ]
    for consumer, sharding in cases:
        edge = axis_edges(consumer)[0]
        _ = edge.own, edge.bases, edge.producer.shape, consumer.shape, edge.reduced
        assert len(entered(forward, edge, sharding)) < 100


def test_a_gathered_axis_is_whole_on_every_device() -> None:
    weight, index = tensor(8, 6), build.tensor(DataType.Int, 4)
    out = call("index_select", weight, index, dim=0)
    rows = plan_of(out, TWO, {index: (Shard(0),)})
    assert (placement(rows, weight), placement(rows, out)) == (Replicate(), Shard(0))
    assert not rows.communications
    columns = plan_of(out, TWO, {weight: (Shard(1),)})
    assert placement(columns, out) == Shard(1)
    with pytest.raises(ValueError, match="index_select needs dim 0 of its operand whole"):
        plan_of(out, TWO, {weight: (Shard(0),)})


def test_a_running_sum_is_whole_on_every_device() -> None:
    x = tensor(8, 6)
    out = call("cumsum", x, dim=1, reverse=False)
    assert placement(plan_of(out, TWO, {x: (Shard(0),)}), out) == Shard(0)
    with pytest.raises(ValueError, match="cumsum needs dim 1 of its operand whole"):
        plan_of(out, TWO, {x: (Shard(1),)})
