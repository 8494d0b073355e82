"""NVIDIA/Fuser#3366: views of inputs become part of the input's domain, or say why they stay."""

from __future__ import annotations

from itertools import product
from textwrap import dedent

import pytest
import torch

from thunder_fuser.analysis.digits import ZERO, atom, evaluate
from thunder_fuser.analysis.index_map import edges
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.move_broadcasts import (
    added_axes,
    move_broadcasts,
    moved_layout,
    reject,
    views,
)

FLOAT = DataType.Float


def column(tv: TensorView) -> TensorView:
    return call("broadcast", tv, is_broadcast_dim=(False, True))


def elements(fusion: Fusion) -> list[tuple[int, ...]]:
    """For every element of the output, row-major: the index of the first input's root that it
    reads. The fusion is a chain."""
    (output,), source = fusion.outputs, fusion.inputs[0]
    index = tuple(atom(a) for a in output.logical)
    tv = output
    while tv.definition is not None:
        (edge,) = edges(tv, index)
        tv, index = edge.producer, edge.index
    assert tv is source
    at = dict(zip(tv.domain.logical, index, strict=True))
    forms = [at.get(a, ZERO) for a in tv.domain.root]
    points = product(*(range(n) for n in output.shape))
    values = [dict(zip(output.logical, p, strict=True)) for p in points]
    return [tuple(evaluate(form, v) for form in forms) for v in values]


def test_a_broadcast_moves_up_through_a_pointwise_chain() -> None:
    x, y = tensor(FLOAT, 8), tensor(FLOAT, 8, 4)
    fusion = Fusion((x, y), (call("mul", column(call("neg", x)), y),))
    assert str(move_broadcasts(fusion)) == dedent("""\
        fusion(T0: f32[i8, b1] bound as [i8], T1: f32[i8, i4]) {
          T2: f32[i8, b1] = neg(T0)
          T3: f32[i8, i4] = mul(T2, T1)
          return T3
        }""")


def test_root_allocation_and_flags_stay_with_the_input() -> None:
    x, y = tensor(FLOAT, 8), tensor(FLOAT, 4, 8)
    row = call("broadcast", x, is_broadcast_dim=(True, False))
    moved = move_broadcasts(Fusion((x, y), (call("mul", row, y),))).inputs[0]
    assert isinstance(moved, TensorView)
    assert moved.domain.root == moved.domain.allocation == x.domain.root
    assert added_axes(moved) == (True, False)
    again = call("broadcast", x, is_broadcast_dim=added_axes(moved))
    assert again.extents == moved.extents


def _squeeze_then_broadcast(x: TensorView) -> TensorView:
    return column(call("squeeze", x, dims=(1,)))


def _permute_then_broadcast(x: TensorView) -> TensorView:
    turned = call("permute", x, dims=(1, 0))
    return call("squeeze", turned, dims=(0,))


@pytest.mark.parametrize(
    ("view", "want"),
    [
        (column, None),
        (lambda x: call("squeeze", column(x), dims=(1,)), "f32[i8] "),
        (
            lambda x: call("expand", column(x), shape=(sc.constant(8), sc.constant(4))),
            "f32[i8, b4]",
        ),
        (lambda x: call("permute", column(x), dims=(1, 0)), "f32[b1, i8]"),
    ],
)
def test_chains_of_views_leave_no_op(view: object, want: str | None) -> None:
    assert callable(view)
    x = tensor(FLOAT, 8)
    fusion = Fusion((x,), (call("neg", view(x)),))
    moved = move_broadcasts(fusion)
    assert [e.op.name for e in moved.exprs] == ["neg"]
    assert moved.outputs[0].extents == fusion.outputs[0].extents
    if want is not None:
        assert want.strip() in str(moved)
    assert elements(moved) == elements(fusion)


def test_the_moved_layout_is_the_view_of_what_was_bound() -> None:
    """Strides as torch gives them to the same chain of views, for a tensor that is not dense."""
    bound = torch.randn(6, 1, 16)[::2, :, ::4].permute(2, 1, 0)  # [4, 1, 3]
    x = tensor(FLOAT, 4, 1, 3)
    view = call("permute", call("squeeze", x, dims=(1,)), dims=(1, 0))
    view = call("broadcast", view, is_broadcast_dim=(False, True, False))
    view = call("expand", view, shape=tuple(sc.constant(n) for n in (3, 5, 4)))
    moved = move_broadcasts(Fusion((x,), (call("neg", view),))).inputs[0]
    assert isinstance(moved, TensorView)
    layout = moved_layout(moved, Layout(tuple(bound.shape), bound.stride()))
    want = bound.squeeze(1).permute(1, 0)[:, None, :].expand(3, 5, 4)
    assert (layout.shape, layout.strides) == (tuple(want.shape), want.stride())


def test_squeezed_and_permuted_axes_move_too() -> None:
    x = tensor(FLOAT, 8, 1)
    for view in (_squeeze_then_broadcast, _permute_then_broadcast):
        fusion = Fusion((x,), (call("neg", view(x)),))
        moved = move_broadcasts(fusion)
        assert [e.op.name for e in moved.exprs] == ["neg"]
        assert elements(moved) == elements(fusion)


def test_sum_then_broadcast_stays() -> None:
    x = tensor(FLOAT, 8, 4)
    total = column(call("sum", x, dims=(1,)))
    fusion = Fusion((x,), (call("sub", x, total),))
    assert move_broadcasts(fusion) is fusion
    assert reject(fusion, total) == "it follows sum: reduce-then-broadcast keeps its pattern"


def test_an_in_place_target_stays() -> None:
    x, z = tensor(FLOAT, 8), tensor(FLOAT, 8, 4)
    view = column(x)
    y = call("mul", view, z)
    written = call("neg", tensor(FLOAT, 8))
    source = written.definition.tensors[0] if written.definition else x
    fusion = Fusion((x, z, source), (y,), (Write(written, x),))
    assert move_broadcasts(fusion) is fusion
    assert "written in place" in (reject(fusion, view) or "")


def test_what_others_read_stays() -> None:
    x, z = tensor(FLOAT, 8), tensor(FLOAT, 8, 4)
    shared = call("neg", x)
    view = column(shared)
    fusion = Fusion((x, z), (call("mul", view, z), call("exp", shared)))
    assert reject(fusion, view) == "the neg it reads has 2 readers"
    returned = Fusion((x,), (column(x),))
    assert "it is returned" in (reject(returned, returned.outputs[0]) or "")
    both = Fusion((x, z), (call("mul", view, z), shared))
    assert reject(both, view) == "the neg it reads is returned with its own shape"
    assert all(move_broadcasts(f) is f for f in (fusion, returned, both))


def test_a_pointwise_op_that_broadcasts_stops_the_move() -> None:
    x, y = tensor(FLOAT, 4, 8), tensor(FLOAT, 8)
    view = call("permute", call("add", x, y), dims=(1, 0))
    fusion = Fusion((x, y), (call("neg", view),))
    assert reject(fusion, view) == "add above it broadcasts its operands"
    assert move_broadcasts(fusion) is fusion


def test_matmul_operands_allocate_no_broadcast_tensor() -> None:
    """[M, K] and [N, K] as (M, 1, K) and (1, N, K): both become domains of the inputs."""
    a, b = tensor(FLOAT, 3, 5), tensor(FLOAT, 4, 5)
    left = call("broadcast", a, is_broadcast_dim=(False, True, False))
    right = call("broadcast", b, is_broadcast_dim=(True, False, False))
    product = call("sum", call("mul", left, right), dims=(2,))
    fusion = move_broadcasts(Fusion((a, b), (product,)))
    assert list(views(fusion)) == []
    assert [e.op.name for e in fusion.exprs] == ["mul", "sum"]
    assert "T0: f32[i3, b1, i5] bound as [i3, i5]" in str(fusion)


def test_symbolic_extents_move() -> None:
    n = sc.symbol("i0")
    x, y = tensor(FLOAT, n), tensor(FLOAT, n, 4)
    fusion = move_broadcasts(Fusion((x, y), (call("mul", column(x), y),)))
    assert "T0: f32[i{i0}, b1] bound as [i{i0}]" in str(fusion)
