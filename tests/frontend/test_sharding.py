"""Device meshes in definitions: printed, part of the key, planned, simulated, refused to run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.distributed import tensor as dtensor

from tests.frontend.fusions import defined, new_cache, redefined
from thunder_fuser.frontend import DataType, FusionCache, FusionDefinition
from thunder_fuser.program import Program

INT = DataType.Int32
Body = Callable[[FusionDefinition], Any]


def integers(*shape: int) -> torch.Tensor:
    """Integers compare bit for bit whatever the order of additions."""
    return torch.randint(-99, 100, shape, dtype=torch.int32)


def on_mesh(
    shape: list[int], *placements: str, mesh: tuple[int, ...] = (2,)
) -> tuple[FusionDefinition, Any]:
    """An open definition on a mesh, and its placed input."""
    fd = FusionDefinition(cache=new_cache())
    fd.__enter__()
    fd.define_mesh(mesh)
    x = fd.define_tensor(shape, contiguity=True, dtype=INT)
    fd.place(x, placements)
    return fd, x


def simple(fd: FusionDefinition) -> None:
    fd.define_mesh([2, 3], names=["dp", "tp"], devices=[5, 4, 3, 2, 1, 0])
    x = fd.define_tensor([4, 6], contiguity=True, dtype=INT)
    fd.place(x, ["S(0)", "S(-1, strided by 2)"])
    y = fd.ops.neg(x)
    fd.place(y, ["S(0)", "R"])
    fd.add_output(y)


def test_the_printed_text_defines_the_same_leaf() -> None:
    cache = new_cache()
    fd = defined(simple, cache)
    assert (
        "fd.define_mesh(shape=[2, 3], names=['dp', 'tp'], devices=[5, 4, 3, 2, 1, 0])\n"
    ) in str(fd)
    assert "    fd.place(T0, ['S(0)', 'S(1, strided by 2)'])\n" in str(fd)
    assert redefined(str(fd), cache).leaf is fd.leaf
    script: dict[str, Any] = {}
    exec(fd.repro_script_for(), script)
    assert str(script["fd"].leaf.definition.sharding) == str(fd.leaf.definition.sharding)


def test_mesh_and_placements_are_part_of_the_key_and_of_what_is_saved(tmp_path: Path) -> None:
    def body(placement: str | None, size: int = 2) -> Body:
        def define(fd: FusionDefinition) -> None:
            if placement is not None:
                fd.define_mesh([size])
            x = fd.define_tensor([4, 6], contiguity=True, dtype=INT)
            if placement is not None:
                fd.place(x, [placement])
            fd.add_output(fd.ops.neg(x))

        return define

    cache = new_cache()
    kinds = [body(None), body("S(0)"), body("S(1)"), body("R"), body("S(0)", 4)]
    leaves = [defined(kind, cache).leaf for kind in kinds]
    assert len(set(leaves)) == len(kinds)
    assert [defined(kind, cache).leaf for kind in kinds] == leaves
    cache.serialize(tmp_path / "fusions")
    loaded = new_cache()
    loaded.deserialize(tmp_path / "fusions")
    again = [defined(kind, loaded).leaf for kind in kinds]
    assert loaded.num_fusions() == len(kinds)
    assert [str(x.definition.sharding) for x in again] == [
        str(x.definition.sharding) for x in leaves
    ]


def test_a_placement_is_a_device_axis_of_the_loop_domain() -> None:
    text = defined(simple).fusion_ir().splitlines()
    assert "T0: i32[i4, i6] loop [deviceIdx.y i2, deviceIdx.x i3, i2, i" in text[0]
    assert "T1: i32[i4, i6] loop [deviceIdx.y i2, i2, i6] = neg(T0)" in text[1]


@pytest.mark.parametrize("count", [2, 4])
def test_the_four_aligned_cases_run_without_communication(count: int) -> None:
    """NVIDIA/Fuser#3987: split reshape, merge reshape, slice, cat; eager needs 0, 0, 1, 3."""
    a, h = 2 * count, 3 * count
    cases: list[tuple[list[int], str, Callable[[Any, Any], Any], Callable[[Any], Any]]] = [
        ([a * h], "S(0)", lambda o, x: o.reshape(x, [a, h]), lambda x: x.reshape(a, h)),
        ([a, h], "S(0)", lambda o, x: o.reshape(x, [a * h]), lambda x: x.reshape(a * h)),
        ([3 * h], "S(0, strided by 3)", lambda o, x: o.slice(x, [h], [2 * h]), lambda x: x[h:-h]),
        ([h], "S(0)", lambda o, x: o.cat([x, o.neg(x)], 0), lambda x: torch.cat([x, -x])),
    ]
    for shape, placement, op, eager in cases:
        fd, x = on_mesh(shape, placement, mesh=(count,))
        fd.add_output(op(fd.ops, x))
        fd.__exit__(None, None, None)
        value = integers(*shape)
        (got,) = fd.simulate([value])
        assert torch.equal(got, eager(value))
        plan = fd.leaf.definition.sharding
        assert plan is not None
        assert plan.communications == ()
        assert "no communication" in fd.explain()


def attention_front(fd: FusionDefinition, groups: int) -> None:
    """Fused QKV of LitGPT, [B, S, groups * (2 + 2) * 4]: groups on the mesh, GQA, then RoPE."""
    b, s, per, size = 1, 3, 2, 4
    total = per + 2
    ops = fd.ops
    fd.define_mesh([groups], names=["tp"])
    qkv = fd.define_tensor([b, s, groups * total * size], contiguity=True, dtype=INT)
    fd.place(qkv, ["S(2)"])
    cos = fd.define_tensor([s, size], contiguity=True, dtype=INT)
    sin = fd.define_tensor([s, size], contiguity=True, dtype=INT)

    def rotate(x: Any) -> Any:
        whole = [b, groups * per, s, size]
        low = ops.slice(x, [0, 0, 0, 0], [*whole[:3], size // 2])
        high = ops.slice(x, [0, 0, 0, size // 2], whole)
        return x * cos + ops.cat([ops.neg(high), low], 3) * sin

    x = ops.permute(ops.reshape(qkv, [b, s, groups, total, size]), [0, 2, 3, 1, 4])
    q, k, v = (
        ops.slice(x, [0, 0, start, 0, 0], [b, groups, end, s, size])
        for start, end in ((0, per), (per, per + 1), (per + 1, total))
    )
    heads = [b, groups * per, s, size]
    k = ops.expand(k, [b, groups, per, s, size])
    fd.add_output(rotate(ops.reshape(q, heads)))
    fd.add_output(rotate(ops.reshape(k, heads)))
    fd.add_output(ops.reshape(v, [b, groups, s, size]))


@pytest.mark.parametrize("groups", [2, 4])
def test_a_rope_front_end_with_groups_on_devices_needs_no_communication(groups: int) -> None:
    fd = defined(lambda fd: attention_front(fd, groups))
    text = fd.explain()
    assert "sharding on mesh[tp=" in text
    assert not [w for w in ("all-", "ring", "reduce-") if w in text]
    qkv, cos, sin = integers(1, 3, groups * 16), integers(3, 4), integers(3, 4)
    x = qkv.reshape(1, 3, groups, 4, 4).permute(0, 2, 3, 1, 4)

    def rotate(y: torch.Tensor) -> torch.Tensor:
        return y * cos + torch.cat([-y[..., 2:], y[..., :2]], 3) * sin

    want = [
        rotate(x[:, :, :2].reshape(1, -1, 3, 4)),
        rotate(x[:, :, 2:3].expand(-1, -1, 2, -1, -1).reshape(1, -1, 3, 4)),
        x[:, :, 3].reshape(1, groups, 3, 4),
    ]
    for got, expected in zip(fd.simulate([qkv, cos, sin]), want, strict=True):
        assert torch.equal(got, expected)


def test_a_misaligned_edge_names_its_collective_bytes_and_reason() -> None:
    fd, x = on_mesh([6], "S(0, strided by 3)")
    fd.add_output(fd.ops.slice(x, [1], [5]))
    fd.__exit__(None, None, None)
    assert "ring rotation by 1 on mesh dim 0, 8 bytes: the window starts 1 blocks" in fd.explain()
    value = integers(6)
    assert torch.equal(fd.simulate([value])[0], value[1:5])


def test_a_placed_result_gathers_what_is_cut() -> None:
    with FusionDefinition(cache=new_cache()) as fd:
        fd.define_mesh([2])
        x = fd.define_tensor([5, 3], contiguity=True, dtype=INT)
        fd.place(x, [dtensor.Shard(0)])
        total = fd.ops.sum(x, [0])
        fd.place(total, [dtensor.Replicate()])
        fd.add_output(total)
    assert "all-reduce on mesh dim 0" in fd.explain()
    value = integers(5, 3)
    assert torch.equal(fd.simulate([value])[0], value.sum(0))


def test_running_on_several_devices_is_refused_and_says_what_works() -> None:
    fd = defined(simple)
    for call in (fd.execute, fd.segment, fd.validate):
        with pytest.raises(RuntimeError) as caught:
            call([integers(4, 6)])
        for words in ("mesh[dp=2, tp=3] of", "6 devices is not supported yet", "fd.simulate"):
            assert words in str(caught.value)


def test_a_mesh_of_one_device_runs_with_symbolic_extents() -> None:
    x = torch.randn(5, 7)
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        fd.define_mesh([1])
        a = fd.define_tensor([-1, -1], contiguity=True)
        fd.place(a, ["S(1)"])
        fd.add_output(fd.ops.permute(fd.ops.neg(a), [1, 0]))
    assert torch.equal(fd.execute([x])[0], -x.t())
    with pytest.raises(RuntimeError, match="nothing to simulate"):
        fd.simulate([x])


def bad(fd: FusionDefinition, x: Any, placements: Any) -> None:
    fd.define_mesh([2])
    fd.place(x, placements)


def empty(fd: FusionDefinition, x: Any) -> None:
    bad(fd, fd.ops.slice(x, [0, 0], [0, 6]), ["S(0)"])


def deep(fd: FusionDefinition, x: Any) -> None:
    fd.define_mesh([2, 2, 2, 2])
    fd.place(x, ["S(0)", "R", "R", "R"])


def read_first(fd: FusionDefinition, x: Any) -> None:
    fd.define_mesh([2])
    fd.ops.neg(x)
    fd.place(x, ["S(0)"])


def uneven_twice(fd: FusionDefinition, x: Any) -> None:
    fd.define_mesh([3, 2])
    fd.place(x, ["S(0)", "S(0)"])


def twice(fd: FusionDefinition, x: Any) -> None:
    bad(fd, x, ["S(0)"])
    fd.place(x, ["R"])


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        (lambda fd, x: fd.define_mesh([2, 0]), ValueError, "at least one device"),
        (lambda fd, x: fd.define_mesh([]), ValueError, "at least one device"),
        (lambda fd, x: fd.define_mesh([2], devices=[0, 0]), ValueError, "twice"),
        (lambda fd, x: fd.define_mesh([2], names=["a", "b"]), ValueError, "1 different names"),
        (lambda fd, x: fd.define_mesh([2.0]), TypeError, r"shape\[0\] is 2.0; legal: int"),
        (lambda fd, x: fd.define_mesh(2), TypeError, "legal: a list"),
        (lambda fd, x: fd.place(x, ["S(0)"]), ValueError, "call fd.define_mesh"),
        (lambda fd, x: bad(fd, x, ["S(0)", "R"]), ValueError, "one placement per mesh dim"),
        (lambda fd, x: bad(fd, x, "S(0)"), TypeError, "legal: a list"),
        (lambda fd, x: bad(fd, x, ["shard"]), ValueError, "'shard' is no placement; legal: 'R'"),
        (lambda fd, x: bad(fd, x, ["P(neg)"]), ValueError, "no placement"),
        (lambda fd, x: bad(fd, x, ["S(2)"]), ValueError, "names axis 2 of a tensor of rank 2"),
        (lambda fd, x: bad(fd, x, ["S(0, strided by 0)"]), ValueError, "must be positive"),
        (lambda fd, x: bad(fd, x, ["S(0, strided by 3)"]), ValueError, "3 equal blocks"),
        (lambda fd, x: [fd.define_mesh([2]), fd.define_mesh([2])], ValueError, "has one mesh"),
        (empty, ValueError, "is empty, there is nothing to place on mesh.2."),
        (deep, ValueError, "loop domains name the last 3 mesh dims"),
        (read_first, ValueError, "neg has read the tensor already"),
        (uneven_twice, ValueError, "cut twice in .S.0., S.0.., and the first cut is uneven"),
        (twice, ValueError, "placed .S.0.. already"),
    ],
)
def test_bad_meshes_and_placements_fail_where_they_are_written(
    body: Callable[[FusionDefinition, Any], Any], error: type[Exception], message: str
) -> None:
    with FusionDefinition(cache=new_cache()) as fd:
        x = fd.define_tensor([8, 6], contiguity=True, dtype=INT)
        with pytest.raises(error, match=message) as caught:
            body(fd, x)
        assert "test_sharding.py" in str(caught.value)
        fd.add_output(fd.ops.neg(x))


def test_a_symbolic_extent_cannot_be_placed_on_several_devices() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, 6], contiguity=True, dtype=INT)
        fd.define_mesh([2])
        fd.place(x, ["S(1)"])

    with pytest.raises(ValueError, match="define the tensor with numbers in place of -1"):
        defined(define)


def test_contradictions_between_placements_fail_when_the_definition_closes() -> None:
    def terms_of_nothing(fd: FusionDefinition) -> None:
        x = fd.define_tensor([8], contiguity=True, dtype=INT)
        y = fd.ops.neg(x)
        fd.define_mesh([2])
        fd.place(y, ["P(sum)"])
        fd.add_output(y)

    def written_elsewhere(fd: FusionDefinition) -> None:
        fd.define_mesh([2])
        x = fd.define_tensor([8, 2], contiguity=True, dtype=INT)
        fd.place(x, ["S(0)"])
        y = fd.ops.neg(x)
        fd.place(y, ["S(1)"])
        fd.add_output(y, alias_input=x)

    def unknown_beside(fd: FusionDefinition) -> None:
        fd.define_mesh([2])
        x = fd.define_tensor([8], contiguity=True, dtype=INT)
        fd.place(x, ["S(0)"])
        fd.add_output(fd.ops.add(x, fd.define_tensor([-1], contiguity=True, dtype=INT)))

    for define, message in (
        (terms_of_nothing, "no cut of a reduced axis there"),
        (written_elsewhere, "annotate both alike"),
        (unknown_beside, "numbers in place of -1"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            defined(define)
        assert "fusion(T0: i32[i8" in str(caught.value)


def test_scalar_inputs_and_casts_are_simulated() -> None:
    with FusionDefinition(cache=new_cache()) as fd:
        fd.define_mesh([2])
        x = fd.define_tensor([4, 6], contiguity=True)
        s = fd.define_scalar(None, DataType.Double)
        fd.place(x, ["S(0)"])
        fd.add_output(fd.ops.cast(fd.ops.mul(x, s + 1.0), DataType.BFloat16))
    value = torch.randn(4, 6)
    (got,) = fd.simulate([value, 2.5])
    torch.testing.assert_close(got, (value * 3.5).bfloat16())


def test_the_block_layout_of_fused_qkv_needs_no_communication() -> None:
    """[3, d, h/d]: slices of the sharded axis itself are local views, and the cat is local."""
    fd, qkv = on_mesh([3, 48], "S(1, strided by 3)")
    parts = []
    for m in range(3):
        heads = fd.ops.reshape(fd.ops.slice(qkv, [0, 16 * m], [3, 16 * (m + 1)]), [3, 4, 4])
        low = fd.ops.slice(heads, [0, 0, 0], [3, 4, 2])
        high = fd.ops.slice(heads, [0, 0, 2], [3, 4, 4])
        parts.append(fd.ops.reshape(fd.ops.cat([fd.ops.neg(high), low], 2), [3, 16]))
    fd.add_output(fd.ops.cat(parts, 1))
    fd.__exit__(None, None, None)
    text = fd.explain()
    assert "local view at [0, 8]" in text
    assert not [w for w in ("all-", "ring", "reduce-") if w in text]
    value = integers(3, 48)
    x = value.reshape(3, 3, 4, 4)
    want = torch.cat([-x[..., 2:], x[..., :2]], 3).reshape(3, 48)
    assert torch.equal(fd.simulate([value])[0], want)


def test_uneven_shards_are_cut_as_torch_cuts_them() -> None:
    fd, x = on_mesh([10], "S(0)", mesh=(4,))
    fd.add_output(fd.ops.cat([x, fd.ops.neg(x)], 0))
    fd.__exit__(None, None, None)
    value = integers(10)
    assert torch.equal(fd.simulate([value])[0], torch.cat([value, -value]))


def test_why_two_axes_are_one_and_why_not() -> None:
    with FusionDefinition(cache=new_cache()) as fd:
        x = fd.define_tensor([4, 6], contiguity=True)
        y = fd.ops.reshape(fd.ops.reshape(x, [24]), [4, 6])
        z = fd.ops.reshape(x, [6, 4])
        fd.add_output(y)
        fd.add_output(z)
    assert "theorem F" in fd.explain_axes((x, 1), (y, -1))
    assert "extents 4 and 6 are not provably equal" in fd.explain_axes((x, 0), (z, 0))
    assert "they differ at" in fd.explain_axes((x, 0), (z, 1))
    assert "are not mapped" in fd.explain_axes((x, 0), (y, 0), map="exact")
    with pytest.raises(ValueError, match="legal: exact"):
        fd.explain_axes((x, 0), (y, 0), map="all")
    with pytest.raises(ValueError, match="out of range"):
        fd.explain_axes((x, 2), (y, 0))
