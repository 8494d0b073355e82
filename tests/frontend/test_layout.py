"""Contiguity and stride order, from sizes and strides and back."""

from __future__ import annotations

from itertools import permutations

import pytest
import torch

from tests.frontend.fusions import check, defined, example
from thunder_fuser.frontend import DataType, FusionDefinition, compute_tensor_descriptor

T, F, N = True, False, None


@pytest.mark.parametrize(
    ("sizes", "strides", "contiguity", "order"),
    [
        ((4, 6), (6, 1), (T, T), (1, 0)),
        ((4, 6), (1, 4), (T, T), (0, 1)),
        ((3, 5), (10, 1), (F, T), (1, 0)),
        ((2, 3, 4), (0, 4, 1), (N, T, T), (2, 1, 0)),
        ((8, 1, 16), (16, 16, 1), (T, N, T), (2, 1, 0)),
        ((2, 5, 3, 3), (45, 1, 15, 5), (T, T, T, T), (3, 0, 2, 1)),
        ((6, 4), (8, 2), (T, F), (1, 0)),
        ((), (), (), ()),
        ((1,), (1,), (N,), (0,)),
    ],
)
def test_descriptor(sizes: object, strides: object, contiguity: object, order: object) -> None:
    assert compute_tensor_descriptor(sizes, strides) == (contiguity, order)  # type: ignore[arg-type]


def test_descriptor_refuses_what_is_no_layout() -> None:
    with pytest.raises(ValueError, match=r"2 sizes \[2, 3\] but 1 strides \[1\]"):
        compute_tensor_descriptor([2, 3], [1])
    with pytest.raises(ValueError, match="dim 1 has the negative stride -1"):
        compute_tensor_descriptor([2, 3], [3, -1])


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_an_input_laid_out_in_any_order_is_taken_as_described(order: tuple[int, ...]) -> None:
    dense = torch.randn(3, 4, 5).permute(order)

    def define(fd: FusionDefinition) -> None:
        (x,) = example(fd, dense)
        fd.add_output(fd.ops.neg(x))

    fd = defined(define)
    assert torch.equal(fd.execute([dense])[0], -dense)
    (tensor,) = fd.leaf.fusion.inputs
    strides = [dense.stride()[tensor.logical.index(axis)] for axis in tensor.domain.allocation]
    assert strides == sorted(strides, reverse=True)
    assert tensor.domain.contiguity == (True, True, True)


def test_contiguity_is_read_in_allocation_order() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, -1], contiguity=[False, True], stride_order=[0, 1])
        fd.add_output(fd.ops.neg(x))

    fd = defined(define)
    x = torch.randn(6, 8).t()[:, :5]
    assert x.stride() == (1, 8)
    assert torch.equal(fd.execute([x])[0], -x)
    with pytest.raises(ValueError, match="dim 0 is contiguous in the definition"):
        fd.execute([torch.randn(5, 8)])


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    "x",
    [
        torch.randn(4, 6),
        torch.randn(4, 12)[:, ::2],
        torch.randn(4, 1),
        torch.randn(1, 6).expand(4, 6),
        torch.randn(4, 1).expand(4, 6),
        torch.randn(()).expand(3, 2),
        torch.randn(0, 6),
        torch.randn(4, 6)[1:3, 2:],
        torch.randn(3, 1, 5).permute(2, 1, 0),
    ],
)
def test_any_layout_of_an_input_gives_the_eager_result(x: torch.Tensor) -> None:
    def define(fd: FusionDefinition) -> None:
        (t,) = example(fd, x)
        fd.add_output(fd.ops.add(t, 1.5))

    check(define, [x], lambda x: [x + 1.5])


def test_an_expanded_input_is_a_broadcast_axis() -> None:
    fd = defined(
        lambda fd: fd.add_output(
            fd.ops.neg(fd.define_tensor([3, -1], contiguity=[None, True], dtype=DataType.Float))
        )
    )
    assert str(fd.leaf.fusion).startswith("fusion(T0: f32[b3, i{i1}])")


def test_static_sizes_keep_the_sizes_of_the_example() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([4, 1, 6], [6, 6, 1], static_sizes=True)
        fd.add_output(fd.ops.neg(x))

    assert "T0: f32[i4, b1, i6]" in defined(define).fusion_ir()


@pytest.mark.parametrize("order", list(permutations(range(4))))
def test_an_output_laid_out_by_stride_order(order: tuple[int, ...]) -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([2, 1, 3, 4], contiguity=True)
        fd.add_output(fd.ops.neg(x), stride_order=list(order))

    fd = defined(define)
    (tv,) = fd.leaf.fusion.outputs
    assert [tv.logical.index(axis) for axis in tv.domain.allocation] == sorted(
        range(4), key=lambda d: -order[d]
    )
    x = torch.randn(2, 1, 3, 4)
    assert torch.equal(fd.execute([x])[0], -x)
    assert fd.outputs() == [1]
    assert fd.fids.results != fd.fids.outputs
