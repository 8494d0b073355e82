"""Patterns that are measured at shapes drawn at random: what images and rows are put through.

Bytes are the least that a pass can move: each input and output once, in the backward cotangents,
saved inputs and gradients. What there is one of per row or channel is not counted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import torch
import torch.nn.functional as F

from benchmarks.cases import Case, Function, Make, Tensors, nbytes
from benchmarks.kernels import EPSILON, normed, wide

Build: TypeAlias = Callable[..., Case]


@dataclass(frozen=True)
class Pattern:
    """`build` takes a Make and a shape of the family: images are (batch, channels, height, width),
    rows (rows, columns), scores (batch, heads, queries, keys)."""

    family: str
    build: Build


def _case(function: Function, inputs: Tensors, forward: float, backward: float) -> Case:
    """Bytes in planes of the first input's size."""
    one = nbytes(inputs[0])
    return Case(function, inputs, int(forward * one), int(backward * one))


def _alone(function: Function, forward: float, backward: float) -> Build:
    """Of one plane."""

    def build(make: Make, *shape: int) -> Case:
        return _case(function, (make.random(*shape),), forward, backward)

    return build


def _weighted(function: Function, dim: int, forward: float, backward: float) -> Build:
    """Of one plane, a weight and a bias along `dim`."""

    def build(make: Make, *shape: int) -> Case:
        weights = make.weight(shape[dim]), make.weight(shape[dim])
        return _case(function, (make.random(*shape), *weights), forward, backward)

    return build


def _channel_scale(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(x * weight[:, None, None] + bias[:, None, None])


def _channel_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """ConvNeXt's layer norm over the channels of an image."""
    exact = wide(x)
    centred = exact - exact.mean(1, keepdim=True)
    variance = centred.pow(2).mean(1, keepdim=True)
    scaled = centred * torch.rsqrt(variance + EPSILON)
    return (scaled * weight[:, None, None] + bias[:, None, None]).to(x.dtype)


def _patch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A vision transformer's: images become rows of their patches' channels."""
    return F.layer_norm(x.flatten(2).transpose(1, 2), (x.shape[1],), weight, bias)


def _layer_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, (x.shape[-1],), weight, bias)


def _rms_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return normed(x) * weight + bias


def _swiglu(x: torch.Tensor) -> torch.Tensor:
    half = x.shape[-1] // 2
    return F.silu(x[..., :half]) * x[..., -half:]


def _instance_norm(x: torch.Tensor) -> torch.Tensor:
    return F.instance_norm(x)


def _batch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True)


def _residual_norm(make: Make, rows: int, columns: int) -> Case:
    """The sum of two planes, and that normalised."""

    def function(
        x: torch.Tensor, y: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor
    ) -> Tensors:
        total = x + y
        return total, F.layer_norm(total, (columns,), weight, bias)

    planes = make.random(rows, columns), make.random(rows, columns)
    return _case(function, (*planes, make.weight(columns), make.weight(columns)), 4, 4)


def _biased_scores(make: Make, *shape: int) -> Case:
    """Attention scores with a bias of each head."""
    bias = make.weight(*shape[1:])
    return _case(lambda x, bias: torch.softmax(x + bias, -1), (make.random(*shape), bias), 2, 3)


def _cross_entropy(make: Make, *shape: int) -> Case:
    """Classes are dim 1."""
    target = make.indices(shape[1], shape[0], *shape[2:])
    x = make.random(*shape)
    once, read = nbytes(x), nbytes(target)
    return Case(F.cross_entropy, (x, target), once + read, 2 * once + read)


IMAGES, ROWS, SCORES = "images", "rows", "scores"
PATTERNS: Mapping[str, Pattern] = {
    "ch_scale": Pattern(IMAGES, _weighted(_channel_scale, 1, 2, 3)),
    "chnorm": Pattern(IMAGES, _weighted(_channel_norm, 1, 2, 3)),
    "turned_ln": Pattern(IMAGES, _weighted(_patch_norm, 1, 2, 3)),
    "batch_norm": Pattern(IMAGES, _weighted(_batch_norm, 1, 2, 3)),
    "instance": Pattern(IMAGES, _alone(_instance_norm, 2, 3)),
    "l2ch": Pattern(IMAGES, _alone(partial(F.normalize, dim=1), 2, 3)),
    "softmax_ch": Pattern(IMAGES, _alone(partial(torch.softmax, dim=1), 2, 3)),
    "logsoftmax_ch": Pattern(IMAGES, _alone(partial(torch.log_softmax, dim=1), 2, 3)),
    "max_ch": Pattern(IMAGES, _alone(partial(torch.amax, dim=1), 1, 2)),
    "mean_sq_hw": Pattern(IMAGES, _alone(lambda x: x.pow(2).mean((2, 3)), 1, 2)),
    "sum_first": Pattern(IMAGES, _alone(lambda x: x.pow(2).sum(0), 1, 2)),
    "perm": Pattern(IMAGES, _alone(lambda x: x.permute(0, 2, 3, 1).relu().contiguous(), 2, 3)),
    "ce_ch": Pattern(IMAGES, _cross_entropy),
    "softmax": Pattern(ROWS, _alone(partial(torch.softmax, dim=-1), 2, 3)),
    "l2": Pattern(ROWS, _alone(partial(F.normalize, dim=-1), 2, 3)),
    "std_rows": Pattern(ROWS, _alone(partial(torch.std, dim=-1), 1, 2)),
    "rmsnorm": Pattern(ROWS, _weighted(_rms_norm, -1, 2, 3)),
    "layernorm": Pattern(ROWS, _weighted(_layer_norm, -1, 2, 3)),
    "scale_bias": Pattern(ROWS, _weighted(lambda x, w, b: F.relu(x * w + b), -1, 2, 3)),
    "addln": Pattern(ROWS, _residual_norm),
    "swiglu_chunk": Pattern(ROWS, _alone(_swiglu, 1.5, 2.5)),
    "ce": Pattern(ROWS, _cross_entropy),
    "bias_rows_softmax": Pattern(SCORES, _biased_scores),
}
