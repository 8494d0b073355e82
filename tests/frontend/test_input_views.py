"""NVIDIA/Fuser#3366: broadcasts, squeezes, permutes and expands of inputs cost nothing.

A kernel operand is a pointer and an index map, so such an op has no code of its own: the tensor
that the caller gave is what the kernel reads, whatever its strides, and only outputs are allocated.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import pytest
import torch

from tests.devices import ORDERS
from tests.frontend.fusions import example
from thunder_fuser.frontend import FusionCache, FusionDefinition
from thunder_fuser.options import Options
from thunder_fuser.program import Program

Define = Callable[..., Any]


class Ran(NamedTuple):
    """A run: outputs, the pointers of each launch, and how many tensors were allocated."""

    fd: FusionDefinition
    outputs: list[torch.Tensor]
    launches: list[list[str]]
    allocations: int


def ran(define: Define, inputs: Sequence[torch.Tensor], order: str = "forward") -> Ran:
    """Define with inputs laid out like these, and execute. `define` adds the outputs."""
    with FusionDefinition(cache=FusionCache(Program)) as fd:
        define(fd, *example(fd, *inputs))
    options = Options(thread_order=order)
    outputs = fd.execute(inputs, capture_debug_output=True, options=options)
    text = fd.debug_output()
    assert text is not None
    assert re.search(r"^ +T\d+ = T\d+\.(contiguous|clone)", text, re.MULTILINE) is None
    launches = [
        re.findall(r"(T\d+)\.data_ptr\(\)", line)
        for line in text.splitlines()
        if re.match(r" +launch\d+\(", line)
    ]
    return Ran(fd, outputs, launches, len(re.findall(r" = empty\w*\(", text)))


def column(fd: FusionDefinition, x: Any) -> Any:
    return fd.ops.broadcast(x, [False, True])


def pointwise_then_broadcast(fd: FusionDefinition, x: Any, y: Any) -> None:
    fd.add_output(fd.ops.mul(column(fd, fd.ops.neg(x)), y))


def broadcast_then_mul(fd: FusionDefinition, x: Any, y: Any) -> None:
    fd.add_output(fd.ops.mul(column(fd, x), y))


def broadcast_then_squeeze(fd: FusionDefinition, x: Any, y: Any) -> None:
    again = fd.ops.squeeze(column(fd, x), [1])
    fd.add_output(fd.ops.mul(column(fd, again), y))


def broadcast_then_expand(fd: FusionDefinition, x: Any, y: Any) -> None:
    fd.add_output(fd.ops.mul(fd.ops.expand(column(fd, x), y.shape()), y))


@pytest.mark.parametrize(
    "define",
    [pointwise_then_broadcast, broadcast_then_mul, broadcast_then_squeeze, broadcast_then_expand],
)
@pytest.mark.parametrize("layout", ["dense", "offset by one element", "every third", "expanded"])
def test_a_vector_seen_as_a_column_is_read_in_place(
    define: Define, layout: str, device: torch.device
) -> None:
    x = {
        "dense": torch.randn(13).to(device),
        "offset by one element": torch.randn(14).to(device)[1:],
        "every third": torch.randn(39).to(device)[::3],
        "expanded": torch.randn(1).to(device).expand(13),
    }[layout]
    y = torch.randn(13, 7).to(device)
    run = ran(define, [x, y])
    sign = -1 if define is pointwise_then_broadcast else 1
    torch.testing.assert_close(run.outputs[0], sign * x[:, None] * y)
    (pointers,) = run.launches
    assert (pointers[:2], len(pointers), run.allocations) == (["T0", "T1"], 3, 1)


def squeeze_then_broadcast(fd: FusionDefinition, x: Any, y: Any) -> None:
    flat = fd.ops.squeeze(x, [1])
    fd.add_output(fd.ops.mul(fd.ops.broadcast(flat, [False, True, False]), y))


def permute_then_broadcast(fd: FusionDefinition, x: Any, y: Any) -> None:
    turned = fd.ops.permute(fd.ops.squeeze(x, [1]), [1, 0])
    wide = fd.ops.broadcast(turned, [False, True, False])
    fd.add_output(fd.ops.mul(wide, fd.ops.permute(y, [2, 1, 0])))


@pytest.mark.parametrize("is_turned", [False, True], ids=["row-major", "transposed"])
@pytest.mark.parametrize("define", [squeeze_then_broadcast, permute_then_broadcast])
def test_squeezed_and_permuted_inputs_are_read_in_place(
    define: Define, is_turned: bool, device: torch.device
) -> None:
    x = torch.randn(9, 1, 5).to(device)
    x = torch.randn(5, 1, 9).to(device).permute(2, 1, 0) if is_turned else x
    y = torch.randn(9, 6, 5).to(device)
    run = ran(define, [x, y])
    want = x * y if define is squeeze_then_broadcast else (x * y).permute(2, 1, 0)
    torch.testing.assert_close(run.outputs[0], want)
    (pointers,) = run.launches
    assert (pointers[:2], len(pointers), run.allocations) == (["T0", "T1"], 3, 1)


def softmax(fd: FusionDefinition, x: Any) -> None:
    shifted = fd.ops.exp(fd.ops.sub(x, column(fd, fd.ops.max(x, [1]))))
    fd.add_output(fd.ops.div(shifted, column(fd, fd.ops.sum(shifted, [1]))))


def centred(fd: FusionDefinition, x: Any) -> None:
    fd.add_output(fd.ops.sub(x, column(fd, fd.ops.sum(x, [1]) / x.size(1))))


@pytest.mark.parametrize("columns", [24, 300])
@pytest.mark.parametrize("define", [softmax, centred])
def test_a_reduced_row_broadcast_back_is_never_a_tensor(
    define: Define, columns: int, device: torch.device
) -> None:
    """The all-reduce pattern: the broadcast stays behind its reduction, in one kernel."""
    x = torch.randn(11, columns).to(device)
    run = ran(define, [x])
    exact = x.double()
    want = torch.softmax(exact, 1) if define is softmax else exact - exact.mean(1, keepdim=True)
    assert (run.outputs[0] - want).abs().max() < 1e-6
    (pointers,) = run.launches
    assert (pointers[0], len(pointers), run.allocations) == ("T0", 2, 1)


def column_times(fd: FusionDefinition, x: Any, y: Any) -> None:
    """y = x[:, None] * z; x.add_(1)"""
    fd.add_output(fd.ops.mul(column(fd, x), y))
    fd.add_output(fd.ops.add(x, 1.0), alias_input=x)


def transposed_times(fd: FusionDefinition, x: Any, y: Any) -> None:
    """x.copy_(x.t() * y)"""
    value = fd.ops.mul(fd.ops.permute(x, [1, 0]), y)
    fd.add_output(value, alias_input=x)


@pytest.mark.parametrize("order", ORDERS)
def test_views_of_an_input_written_in_place_read_its_old_value(
    order: str, device: torch.device
) -> None:
    x, y = torch.randn(17).to(device), torch.randn(17, 9).to(device)
    old = x.clone()
    run = ran(column_times, [x, y], order)
    torch.testing.assert_close(run.outputs[0], old[:, None] * y)
    torch.testing.assert_close(x, old + 1)
    square, factor = torch.randn(19, 19).to(device), torch.randn(19, 19).to(device)
    before = square.clone()
    ran(transposed_times, [square, factor], order)
    torch.testing.assert_close(square, before.t() * factor)


def test_matmul_operands_are_read_where_they_lie(device: torch.device) -> None:
    """[M, K] as (M, 1, K) and [N, K] as (1, N, K), multiplied and summed."""

    def matmul(fd: FusionDefinition, a: Any, b: Any) -> None:
        left = fd.ops.broadcast(a, [False, True, False])
        right = fd.ops.broadcast(b, [True, False, False])
        fd.add_output(fd.ops.sum(fd.ops.mul(left, right), [2]))

    a, b = torch.randn(7, 12).to(device), torch.randn(12, 5).to(device).t()
    run = ran(matmul, [a, b])
    torch.testing.assert_close(run.outputs[0], a @ b.t())
    (pointers,) = run.launches
    assert (pointers[:2], len(pointers), run.allocations) == (["T0", "T1"], 3, 1)


def test_a_returned_broadcast_is_a_view_of_the_input(device: torch.device) -> None:
    x = torch.randn(8).to(device)

    def wide(fd: FusionDefinition, x: Any) -> None:
        fd.add_output(fd.ops.expand(column(fd, x), [8, 5]))

    run = ran(wide, [x])
    (y,) = run.outputs
    assert (y.data_ptr(), y.stride(), tuple(y.shape)) == (x.data_ptr(), (1, 0), (8, 5))
    assert (run.launches, run.allocations) == ([], 0)


def test_a_broadcast_that_is_returned_and_read_is_one_view(device: torch.device) -> None:
    x, z = torch.randn(8).to(device), torch.randn(8, 5).to(device)

    def both(fd: FusionDefinition, x: Any, z: Any) -> None:
        wide = fd.ops.expand(column(fd, x), [8, 5])
        fd.add_output(wide)
        fd.add_output(fd.ops.mul(wide, z))

    run = ran(both, [x, z])
    assert (run.outputs[0].data_ptr(), run.outputs[0].stride()) == (x.data_ptr(), (1, 0))
    torch.testing.assert_close(run.outputs[1], x[:, None] * z)
    assert (len(run.launches), run.allocations) == (1, 1)
    assert "0 edges, 0 bytes" in (run.fd.debug_output() or "")


def test_views_at_the_inputs_of_a_later_segment_are_index_maps_too(device: torch.device) -> None:
    """What crosses the cut is the vector; each side sees it as it wants."""

    def cut(fd: FusionDefinition, x: Any, y: Any) -> None:
        first = fd.ops.segment_set(column(fd, fd.ops.tanh(x)))
        fd.add_output(fd.ops.mul(first, y))

    x, y = torch.randn(8).to(device), torch.randn(8, 5).to(device)
    run = ran(cut, [x, y])
    torch.testing.assert_close(run.outputs[0], x.tanh()[:, None] * y)
    assert (len(run.launches), run.allocations) == (2, 2)
    assert "1 edges, 32 bytes" in (run.fd.debug_output() or "")


def test_the_flags_of_a_broadcast_print_and_replay_after_a_run(device: torch.device) -> None:
    x, y = torch.randn(8).to(device), torch.randn(8, 4).to(device)
    run = ran(pointwise_then_broadcast, [x, y])
    text = str(run.fd)
    assert "fd.ops.broadcast(T2, is_broadcast_dim=[False, True])" in text
    assert "T3: f32[i{i0}, b1] = broadcast(T2" in run.fd.fusion_ir()
    run.fd.execute([x, y])
    assert str(run.fd) == text
