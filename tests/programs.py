"""What the tests of the compiler share: short spellings of ops, and one way to run and judge."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch

from tests.devices import CPU, ORDERS, copies, here, reordering, to_cpu
from thunder_fuser import pipeline
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.layout import compute_tensor_descriptor
from thunder_fuser.ir import build
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.templates import AnyKernel, draft
from thunder_fuser.options import Options
from thunder_fuser.pipeline import make_plan
from thunder_fuser.runtime import nvrtc
from thunder_fuser.runtime.bind import bind
from thunder_fuser.runtime.compilation import Compiled, Unit
from thunder_fuser.runtime.dtypes import DTYPES_OF_TORCH
from thunder_fuser.runtime.evaluate import evaluate
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.segment.segmented import SegmentedFusion
from thunder_fuser.target import HOST, Target, cuda

STRICT = Options(strict=True, tune="off")  # kernels are the first choice, whatever their size
UNCOMPILED = Options(strict=True, evaluator=True)  # the same segments, run by torch


def like(*tensors: torch.Tensor) -> tuple[TensorView, ...]:
    """Inputs of the types and sizes of these, which lie like them."""
    return tuple(_like(t) for t in tensors)


def _like(tensor: torch.Tensor) -> TensorView:
    contiguity, stride_order = compute_tensor_descriptor(tensor.shape, tensor.stride())
    return build.tensor(
        DTYPES_OF_TORCH[tensor.dtype],
        *tensor.shape,
        stride_order=stride_order,
        contiguity=contiguity,
    )


def whole(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    """Small integers, whose sums are exact in any order."""
    return torch.randint(-3, 4, shape).to(dtype)


def ordered(index: TensorView, count: int) -> tuple[TensorView, TensorView, TensorView]:
    """The order of an index of places below `count`, its keys in that order, and their ends."""
    order = call("group_order", index, count=ints([count]))
    keys = call("group_keys", index, order, count=ints([count]))
    return order, keys, call("group_ends", keys, count=ints([count]))


def places(terms: int, count: int, often: int = 0) -> torch.Tensor:
    """An index of which `often` elements name one of the `count` places."""
    index = torch.randint(count, (terms,))
    index[torch.randperm(terms)[:often]] = count // 2
    return index


def drawn(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    """Random numbers, small ones of integers."""
    if dtype.is_floating_point:
        return torch.randn(*shape).to(dtype)
    return torch.randint(-50, 50, shape, dtype=dtype)


def ints(values: Sequence[int]) -> tuple[sc.Scalar, ...]:
    return tuple(map(sc.constant, values))


def piece(tv: TensorView, dim: int, start: int, end: int, step: int = 1) -> TensorView:
    """`tv[..., start:end:step, ...]` along `dim`."""
    starts, ends, steps = [0] * tv.ndim, list(tv.shape), [1] * tv.ndim
    starts[dim], ends[dim], steps[dim] = start, end, step
    attrs = {"start_indices": ints(starts), "end_indices": ints(ends), "strides": ints(steps)}
    return call("slice", tv, **attrs)


def pad(tv: TensorView, widths: Sequence[int], value: float = 0.0) -> TensorView:
    """`torch.nn.functional.pad`: pairs of widths, the last dim first."""
    return call("pad", tv, sc.constant(value), pad_widths=ints(widths))


def cat(*tensors: TensorView, dim: int = -1) -> TensorView:
    return call("cat", *tensors, dim=dim % tensors[0].ndim)


def permute(tv: TensorView, *dims: int) -> TensorView:
    return call("permute", tv, dims=dims)


def swapped(tv: TensorView) -> TensorView:
    """With its last two dims in turn."""
    return permute(tv, *range(tv.ndim - 2), tv.ndim - 1, tv.ndim - 2)


def rolled(tv: TensorView, count: int, dim: int) -> TensorView:
    """With its last elements along a dim before all others."""
    kept = tv.shape[dim] - count
    return cat(piece(tv, dim, kept, tv.shape[dim]), piece(tv, dim, 0, kept), dim=dim)


def reshape(tv: TensorView, *extents: int) -> TensorView:
    return call("reshape", tv, new_shape=ints(extents))


def patches(x: TensorView, high: int, wide: int) -> TensorView:
    """Rows of all channels of each element of a patch: last in memory are the channels."""
    batch, channels, height, width = x.shape
    parts = reshape(x, batch, channels, height // high, high, width // wide, wide)
    rows = batch, height * width // high // wide, high * wide * channels
    return reshape(permute(parts, 0, 2, 4, 3, 5, 1), *rows)


def images(x: TensorView, high: int, wide: int, height: int, width: int) -> TensorView:
    """What patches were before."""
    batch, channels = x.shape[0], x.shape[2] // high // wide
    parts = reshape(x, batch, height // high, width // wide, high, wide, channels)
    return reshape(permute(parts, 0, 5, 1, 3, 2, 4), batch, channels, height, width)


def expand(tv: TensorView, *extents: int) -> TensorView:
    return call("expand", tv, shape=ints(extents))


def unsqueeze(tv: TensorView, dim: int) -> TensorView:
    flags = [False] * tv.ndim
    flags.insert(dim, True)
    return call("broadcast", tv, is_broadcast_dim=tuple(flags))


def doubled(x: TensorView) -> TensorView:
    """Each element of the last two dims four times, as an upsampling to the nearest makes them."""
    *outer, height, width = x.shape
    parts = unsqueeze(unsqueeze(x, x.ndim), x.ndim - 1)
    return reshape(expand(parts, *outer, height, 2, width, 2), *outer, 2 * height, 2 * width)


def flip(tv: TensorView, *dims: int) -> TensorView:
    return call("flip", tv, dims=dims)


def total(tv: TensorView, *dims: int) -> TensorView:
    return call("sum", tv, dims=dims)


def full(value: float, *extents: int, dtype: DataType = DataType.Float) -> TensorView:
    return call("full", sc.constant(value), shape=ints(extents), dtype=dtype)


def stop(tv: TensorView) -> TensorView:
    """A stop point: what follows is another segment."""
    return call("segment_set", tv)


def chain(tv: TensorView, *names: str) -> TensorView:
    for name in names:
        tv = call(name, tv)
    return tv


def fusion(
    inputs: Sequence[TensorView],
    *outputs: TensorView,
    writes: Sequence[tuple[TensorView, TensorView]] = (),
) -> Fusion:
    """`writes` are pairs of a value and its target."""
    return Fusion(tuple(inputs), outputs, tuple(Write(v, t) for v, t in writes))


def plan_of(program: Fusion, *tensors: torch.Tensor, options: Options | None = None) -> Plan:
    """The plan for these arguments; by default nothing is compiled in tests on the CPU."""
    default = UNCOMPILED if here().type == "cpu" else STRICT
    return make_plan(program, tensors, default if options is None else options)


def run(program: Fusion, *tensors: torch.Tensor, options: Options = STRICT) -> list[torch.Tensor]:
    """The results on the CPU; on another device copies of the tensors are read and written."""
    given = tensors if here() == CPU else copies(tensors)
    return to_cpu(plan_of(program, *given, options=options).run(*given))


def run_in_orders(
    program: Fusion, *tensors: torch.Tensor, options: Options = STRICT
) -> tuple[Plan, list[list[torch.Tensor]]]:
    """One plan, and its results in each order of the host's threads, on the CPU."""
    orders = ORDERS if here() == CPU else ORDERS[:1]
    with reordering() as reordered:
        plan = plan_of(program, *copies(tensors), options=options)
        return plan, [to_cpu(reordered(plan.run, o)(*copies(tensors))) for o in orders]


def check(
    program: Fusion,
    *tensors: torch.Tensor,
    options: Options = STRICT,
    orders: Sequence[str] = ORDERS[:1],
) -> Plan:
    """Results and written arguments on the test's device are those of the evaluator on the CPU, bit
    for bit, in each of these orders of the host's threads; a GPU has its own. A returned view of an
    argument that is written shows the new value, as in eager."""
    given = [copies(tensors) for _ in (orders if here() == CPU else orders[:1])]
    with reordering() as reordered:
        plan = plan_of(program, *given[0], options=options)
        found = [reordered(plan.run, o)(*g) for o, g in zip(orders, given, strict=False)]
    wanted = copies(tensors, CPU)
    expected = evaluate(program, wanted)
    for order, arguments, results in zip(orders, given, found, strict=False):
        where = f"{order}\n{program}\n{plan}"
        _judge(plan, tensors, arguments, wanted, results, expected, where)
    return plan


def is_ours(plan: Plan) -> bool:
    """True where torch runs nothing."""
    return not any(segment.is_opaque for segment in plan.segmented.segments)


def clusters(plan: Plan) -> list[str]:
    """How many blocks each cluster of its kernels has."""
    return [n for text in plan.sources for n in re.findall(r"__cluster_dims__\((\d+)", text)]


def _judge(
    plan: Plan,
    old: Sequence[torch.Tensor],
    given: Sequence[torch.Tensor],
    wanted: Sequence[torch.Tensor],
    results: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    where: str,
) -> None:
    """What arguments `old` became on the test's device and on the CPU, and what was returned."""
    for position, (got, want) in enumerate(zip(results, expected, strict=True)):
        target = _written_root(plan, position)
        if target is not None:
            before = _seen_alike(got, given[target], old[target])
            assert_same(before, want, f"the view that is output {position} of {where}")
            want = _seen_alike(got, given[target], wanted[target])
        assert_same(got, want, f"output {position} of {where}")
    for position, (got, want) in enumerate(zip(given, wanted, strict=True)):
        assert_same(got, want, f"argument {position} after {where}")


def _written_root(plan: Plan, output: int) -> int | None:
    """The argument that an output is or is a view of, if that is written."""
    segmented = plan.segmented
    tv = segmented.fusion.outputs[output]
    targets = {w.target for w in segmented.fusion.writes}
    root = segmented.storage(tv)
    return segmented.fusion.inputs.index(root) if root in targets else None


def _seen_alike(view: torch.Tensor, of: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """`other` seen as `view` shows `of`."""
    offset = view.storage_offset() - of.storage_offset() + other.storage_offset()
    return other.as_strided(view.shape, view.stride(), offset)


def assert_same(got: torch.Tensor, want: torch.Tensor, where: str = "") -> None:
    """Equal bit for bit, but for the sign of a NaN."""
    assert (got.dtype, got.shape) == (want.dtype, want.shape), where
    got, want = got.cpu(), want.cpu()
    same = torch.equal(got.nan_to_num(nan=12345.0), want.nan_to_num(nan=12345.0))
    assert same, f"{got}\nis not\n{want}\n{where}"


H200 = cuda("sm_90a", 132, l2_bytes=60 << 20)
_SIZES = ("multiprocessors", "l2_bytes", "max_cluster")
WIDEST_HOST = replace(HOST, **{name: getattr(H200, name) for name in _SIZES})  # as an H200
SMALL = cuda("sm_90a", 8, l2_bytes=4 << 20)  # which a few blocks keep busy


def machine(multiprocessors: int, max_cluster: int = 1) -> Target:
    """An H200 of another size."""
    return replace(H200, multiprocessors=multiprocessors, max_cluster=max_cluster)


def cuda_kernels(
    program: Fusion, *tensors: torch.Tensor, target: Target = H200
) -> tuple[SegmentedFusion, list[AnyKernel]]:
    """The segments and the kernels for an H200, for CPU tensors in place of CUDA ones. What torch
    runs has none."""
    bound = bind(program, tensors)
    segmented = pipeline.cut_region(bound.fusion, bound.layouts, target, strict=False)
    held = [s for s in segmented.segments if not s.is_opaque]
    return segmented, [draft(s, target, False).lower(False) for s in held]


def cubin_of(kernel: AnyKernel) -> Compiled:
    """What NVRTC makes of a kernel for an H200. Skips the test where it tells no spills, as that of
    torch 2.11's wheels."""
    source = emit(kernel)
    made = _cubin(source.name, source.text)
    if made.spill_bytes is None:
        pytest.skip("this NVRTC tells no spills")
    return made


@cache
def _cubin(name: str, text: str) -> Compiled:
    """Once, as of the kernels that order an index for sums of any rows."""
    return nvrtc.compile_cubin(Unit(name, text), nvrtc.flags(H200, Options()), None)


def compiled_by_nvrtc(text: str, architecture: str = "compute_90a") -> bytes:
    """What NVRTC makes of a translation unit, PTX for compute_XX and a cubin for sm_XX; fails the
    test with its log. Skips the test where it is missing."""
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    _, program = nvrtc.nvrtcCreateProgram(text.encode(), b"k.cu", 0, [], [])
    options = [f"--gpu-architecture={architecture}".encode(), b"--std=c++17", b"-default-device"]
    (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)

    def read(size_of: Callable[..., Any], get: Callable[..., Any]) -> bytes:
        _, size = size_of(program)
        found = b" " * size
        get(program, found)
        return found

    log = read(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog).decode()
    assert status == nvrtc.nvrtcResult.NVRTC_SUCCESS, log
    if architecture.startswith("sm_"):
        return read(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN)
    return read(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX)


def ptx_of(text: str) -> str:
    return compiled_by_nvrtc(text).decode()
