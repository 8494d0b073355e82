"""Batch norm in training: values, gradients and running statistics beside torch's and fp64."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import pytest
import thunder
import torch
from torch import nn

from tests.executor.test_norms import kinds
from thunder_fuser import fuser, pipeline
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.runtime.targets import target_for

STEPS = 3
SHAPES = {
    "features": (50, 5),
    "sequences": (6, 5, 33),
    "images": (8, 5, 7, 6),
    "channels in lanes": (4, 64, 8, 8),
    "one channel": (40, 1, 3, 3),
    "one image": (1, 5, 9, 11),
    "one pixel": (45, 5, 1, 1),
    "channels of several blocks": (40, 3, 29, 31),
    "many features": (700, 37),
}


def layer(shape: Sequence[int], **options: object) -> nn.Module:
    made: nn.Module = (nn.BatchNorm2d if len(shape) == 4 else nn.BatchNorm1d)(shape[1], **options)
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.uniform_(0.5, 1.5)
    return made


def trained(
    module: nn.Module, batches: Sequence[torch.Tensor], cotangents: Sequence[torch.Tensor]
) -> tuple[list[torch.Tensor], dict[str, torch.Tensor]]:
    """Results and gradients of every batch, and the statistics after the last one."""
    values: list[torch.Tensor] = []
    for batch, cotangent in zip(batches, cotangents, strict=True):
        x = batch.detach().clone(memory_format=torch.preserve_format).requires_grad_()
        result = module(x)
        parameters = list(module.parameters())
        gradients = torch.autograd.grad(result, [x, *parameters], cotangent.to(result.dtype))
        values += [result, *gradients]
    buffers = {name.split(".")[-1]: b.detach().cpu() for name, b in module.named_buffers()}
    return [v.detach().cpu().double() for v in values], buffers


def compare(module: nn.Module, batches: Sequence[torch.Tensor], device: torch.device) -> nn.Module:
    """Errors against fp64 are like eager's, or a few roundings of the largest operand or result,
    those of the statistics of the statistic."""
    exact, ours = copy.deepcopy(module).double(), copy.deepcopy(module).to(device)
    jitted = thunder.jit(ours, executors=[fuser])
    cotangents = [torch.randn_like(batch) for batch in batches]
    moved = [[t.to(device) for t in group] for group in (batches, cotangents)]
    found, statistics = trained(jitted, *moved)
    eager, expected = trained(module, batches, cotangents)
    wide = [[t.double() for t in group] for group in (batches, cotangents)]
    largest = max(batch.abs().max() for batch in batches).double()
    slack = 16 if batches[0].dtype is torch.float64 else 8  # of which eager's values are the exact
    wanted, exactly = trained(exact, *wide)
    for value, got, other in zip(wanted, found, eager, strict=True):
        rounding = torch.finfo(batches[0].dtype).eps * torch.maximum(value.abs().max(), largest)
        assert (got - value).abs().max() <= 2 * (other - value).abs().max() + slack * rounding
    assert statistics.keys() == expected.keys() == exactly.keys()
    for name, value in exactly.items():
        got, other = statistics[name], expected[name]
        assert got.dtype == other.dtype
        rounding = torch.finfo(torch.float32).eps * value.abs().max()
        bound = 2 * (other - value).abs().max() + 8 * rounding
        assert (got - value).abs().max() <= bound, name
    return jitted


def batches_of(shape: Sequence[int], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    return [(torch.randn(shape) * 3 + 5).to(dtype) for _ in range(STEPS)]


@pytest.mark.parametrize("name", SHAPES)
def test_training(name: str, device: torch.device) -> None:
    shape = SHAPES[name]
    compare(layer(shape), batches_of(shape), device)


@pytest.mark.parametrize(
    "options",
    [
        {"affine": False},
        {"affine": False, "track_running_stats": False},
        {"track_running_stats": False},
        {"momentum": 0.5},
        {"eps": 0.1},
    ],
    ids=str,
)
def test_options(options: dict[str, object], device: torch.device) -> None:
    shape = SHAPES["images"]
    compare(layer(shape, **options), batches_of(shape), device)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64], ids=str)
def test_other_floats(dtype: torch.dtype, device: torch.device) -> None:
    shape = SHAPES["images"]
    module = layer(shape, track_running_stats=False).to(dtype)
    compare(module, batches_of(shape, dtype), device)


@pytest.mark.parametrize(
    "name", [name for name, shape in SHAPES.items() if len(shape) == 4 and name != "one pixel"]
)
def test_channels_that_lie_innermost(name: str, device: torch.device) -> None:
    shape = SHAPES[name]
    batches = [b.to(memory_format=torch.channels_last) for b in batches_of(shape)]
    jitted = compare(layer(shape), batches, device)
    found = [kinds(r) for r in regions_of(jitted)]
    assert all(k in (["kernel"], ["kernel"] * 2) for k in found)  # one where channels are rows
    result = jitted(batches[0].to(device))
    assert result.is_contiguous(memory_format=torch.channels_last)


class Permuted(nn.Module):
    """A norm of images that come with their channels innermost, and leave so."""

    def __init__(self, norm: nn.Module) -> None:
        super().__init__()
        self.norm = norm

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1)


def test_channels_that_are_permuted_in_the_region(device: torch.device) -> None:
    """More of each than a block keeps: their sums are down columns, as memory lies."""
    jitted = compare(Permuted(layer((2, 5, 48, 47))), batches_of((2, 48, 47, 5)), device)
    assert kinds(regions_of(jitted)[0]) == ["kernel"] * 2


@pytest.mark.parametrize("lies", [torch.contiguous_format, torch.channels_last], ids=str)
def test_a_large_machine_shares_the_channels(
    lies: torch.memory_format, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no cluster holds one."""
    wide = replace(target_for(device), multiprocessors=132, max_cluster=1)
    monkeypatch.setattr(pipeline, "target_for", lambda device: wide)
    shape = SHAPES["channels of several blocks"]
    batches = [b.to(memory_format=lies) for b in batches_of(shape)]
    jitted = compare(layer(shape), batches, device)
    plans = [plan for region in regions_of(jitted) for plan in region.plans()]
    assert all("tickets" in plan for plan in plans)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.parametrize("shape", [(130, 64, 7, 7), (77, 37, 11, 13)], ids=str)
def test_large_batches_of_odd_images_are_summed_place_by_place(
    shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    """And each channel's places behind that, before what is stored of the batch. Of 37 channels of
    143 places rows are odd, too."""
    module = layer(shape, track_running_stats=False).to(dtype)
    jitted = compare(module, batches_of(shape, dtype), device)
    found = [kinds(r) for r in regions_of(jitted)]
    assert found == [["kernel"] * 3] * 2


def test_sixteen_bits_with_statistics_of_thirty_two(device: torch.device) -> None:
    """The input is bf16; the parameters and the running statistics are not rounded to it."""
    shape = SHAPES["images"]
    x = (torch.randn(shape) * 3 + 5).bfloat16()
    weight, bias = torch.rand(5) + 0.5, torch.rand(5)

    def function(
        x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, m: torch.Tensor, v: torch.Tensor
    ) -> torch.Tensor:
        return torch.nn.functional.batch_norm(x, m, v, w, b, training=True)

    statistics = [torch.zeros(5), torch.ones(5)]
    ours = [t.clone().to(device) for t in statistics]
    jitted = thunder.jit(function, executors=[fuser])
    found = jitted(x.to(device), weight.to(device), bias.to(device), *ours).cpu().double()
    exact = function(x.double(), weight.double(), bias.double(), *(t.double() for t in statistics))
    eager = function(x, weight, bias, *statistics)
    slack = torch.finfo(torch.bfloat16).eps * exact.abs().max()
    assert (found - exact).abs().max() <= 2 * (eager.double() - exact).abs().max() + slack
    for got, want in zip(ours, statistics, strict=True):
        torch.testing.assert_close(got.cpu(), want)


def test_inference_uses_the_statistics(device: torch.device) -> None:
    shape = SHAPES["images"]
    module = layer(shape)
    module(torch.randn(shape))
    compare(module.eval(), batches_of(shape), device)


def test_large_means_leave_the_variance(device: torch.device) -> None:
    """Two passes: the squares of values around 1000 would drown a variance of 1."""
    x = torch.randn(SHAPES["images"]) + 1000
    module = layer(SHAPES["images"], momentum=1.0)
    jitted = thunder.jit(copy.deepcopy(module).to(device), executors=[fuser])
    result = jitted(x.to(device)).detach().cpu().double()
    rounding = torch.finfo(x.dtype).eps * 1000
    assert (result - module.double()(x.double())).abs().max() <= 8 * rounding
    variance = dict(jitted.named_buffers())["running_var"].cpu().double()
    torch.testing.assert_close(variance, x.double().var((0, 2, 3)), rtol=1e-5, atol=0)


@pytest.mark.parametrize("name", ["features", "images"])
def test_statistics_are_updated_by_the_kernels_that_make_them(
    name: str, device: torch.device
) -> None:
    """Of columns and of channels that blocks hold one kernel makes them and normalises, and one
    counts."""
    shape = SHAPES[name]
    jitted = compare(layer(shape), batches_of(shape), device)
    assert [kinds(r) for r in regions_of(jitted)] == [["kernel"] * 2, ["kernel"]]


def test_one_value_per_channel_is_refused_as_in_torch(device: torch.device) -> None:
    jitted = thunder.jit(layer((1, 5)).to(device), executors=[fuser])
    with pytest.raises(RuntimeError, match="Expected more than 1 value per channel when training"):
        jitted(torch.randn(1, 5).to(device))
