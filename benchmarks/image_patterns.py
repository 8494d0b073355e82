"""What images (batch, channels, height, width) are put through."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import gcd

import torch
import torch.nn.functional as F

from benchmarks.cases import Case, Make, nbytes
from benchmarks.kernels import EPSILON, wide
from benchmarks.pattern import IMAGES, TARGET, Pattern, alone, paired, planes, scaled, weighted

_GROUPS = 32  # of a group norm, at most


def _channel_scale(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.gelu(x * weight[:, None, None] + bias[:, None, None])


def _channel_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """ConvNeXt's layer norm over the channels of an image."""
    exact = wide(x)
    centred = exact - exact.mean(1, keepdim=True)
    variance = centred.pow(2).mean(1, keepdim=True)
    scale = centred * torch.rsqrt(variance + EPSILON)
    return (scale * weight[:, None, None] + bias[:, None, None]).to(x.dtype)


def _patch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A vision transformer's: images become rows of their patches' channels."""
    return F.layer_norm(x.flatten(2).transpose(1, 2), (x.shape[1],), weight, bias)


def _last_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """ConvNeXt's in a block, whose channels are last from there on."""
    return F.layer_norm(x.permute(0, 2, 3, 1), (x.shape[1],), weight, bias)


def _instance_norm(x: torch.Tensor) -> torch.Tensor:
    return F.instance_norm(x)


def _batch_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    return F.batch_norm(x, None, None, weight, bias, training=True)


def _group_norm(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """A diffusion model's, with the activation behind it."""
    return F.silu(F.group_norm(x, gcd(x.shape[1], _GROUPS), weight, bias))


def _excited(x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
    """Squeeze and excitation: each channel of each image by a gate of its own."""
    return x * torch.sigmoid(gate)[:, :, None, None]


def _dice(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Of each image and class: how far the areas are from each other."""
    area = torch.sigmoid(x)
    common, both = (area * target).sum((2, 3)), (area + target).sum((2, 3))
    return (1 - 2 * common / (both + 1)).mean()


def _dice_cross_entropy(make: Make, *shape: int) -> Case:
    """A segmentation's: of the areas of each class in each image, and of each place."""
    case = cross_entropy(make, *shape)

    def function(x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        area = torch.softmax(x, 1)
        wanted = F.one_hot(target, shape[1]).permute(0, 3, 1, 2).to(area.dtype)
        common, both = (area * wanted).sum((2, 3)), area.sum((2, 3)) + wanted.sum((2, 3))
        return (1 - (2 * common + 1) / (both + 1)).mean() + F.cross_entropy(x, target)

    return Case(function, case.inputs, case.forward_bytes, case.backward_bytes)


def _patches(x: torch.Tensor) -> torch.Tensor:
    """Rows of patches of two by two elements of all channels. An odd row or column is left out, as
    by a convolution that takes such steps."""
    batch, channels, height, width = x.shape
    high, wide = height // 2, width // 2
    parts = x[:, :, : 2 * high, : 2 * wide].reshape(batch, channels, high, 2, wide, 2)
    return parts.permute(0, 2, 4, 3, 5, 1).reshape(batch, high * wide, 4 * channels)


def _doubled(x: torch.Tensor) -> torch.Tensor:
    """Each element four times: an upsampling to the nearest."""
    batch, channels, height, width = x.shape
    parts = x[:, :, :, None, :, None].expand(-1, -1, -1, 2, -1, 2)
    return parts.reshape(batch, channels, 2 * height, 2 * width)


def _shifted(x: torch.Tensor) -> torch.Tensor:
    """A Swin transformer's shift of its windows."""
    return torch.roll(x, (-3, -3), (2, 3))


def _cut(make: Make, *shape: int) -> Case:
    x = make.random(*shape)
    taken = nbytes(x[:, :, : shape[2] // 2 * 2, : shape[3] // 2 * 2])
    return Case(_patches, (x,), 2 * taken, taken + nbytes(x))


def _residual_scale(make: Make, *shape: int) -> Case:
    """ConvNeXt's: a branch, by a scale of each channel, added to what went around it. The gradient
    of that is a copy of the cotangent, since autograd wants one that nobody else holds."""
    x, branch, scale = make.random(*shape), make.random(*shape), make.weight(shape[1])
    return planes(
        lambda x, branch, scale: x + branch * scale[:, None, None], (x, branch, scale), 3, 4
    )


def cross_entropy(make: Make, *shape: int) -> Case:
    """Classes are dim 1."""
    target = make.indices(shape[1], shape[0], *shape[2:])
    x = make.random(*shape)
    once, read = nbytes(x), nbytes(target)
    return Case(F.cross_entropy, (x, target), once + read, 2 * once + read)


def _total_variation(x: torch.Tensor) -> torch.Tensor:
    """How far neighbours are from each other, along both sides of an image."""
    down, along = x[..., 1:, :] - x[..., :-1, :], x[..., 1:] - x[..., :-1]
    return down.abs().mean() + along.abs().mean()


def _merged(x: torch.Tensor) -> torch.Tensor:
    """Four neighbours as one with their channels side by side, normalised (a Swin transformer)."""
    even = x[:, : x.shape[1] // 2 * 2, : x.shape[2] // 2 * 2]
    four = [even[:, k::2, m::2] for m in range(2) for k in range(2)]
    return F.layer_norm(torch.cat(four, -1), (4 * x.shape[-1],))


def _largest(x: torch.Tensor) -> torch.Tensor:
    """Of 2 x 2 places, which share the gradient where they are equal."""
    batch, channels, high, wide = x.shape[0], x.shape[1], x.shape[2] // 2, x.shape[3] // 2
    even = x[:, :, : 2 * high, : 2 * wide]
    return even.reshape(batch, channels, high, 2, wide, 2).amax((3, 5))


PATTERNS: Mapping[str, Pattern] = {
    "ch_scale": Pattern(IMAGES, weighted(_channel_scale, 1, 2, 3)),
    "chnorm": Pattern(IMAGES, weighted(_channel_norm, 1, 2, 3)),
    "turned_ln": Pattern(IMAGES, weighted(_patch_norm, 1, 2, 3)),
    "last_ln": Pattern(IMAGES, weighted(_last_norm, 1, 2, 3)),
    "batch_norm": Pattern(IMAGES, weighted(_batch_norm, 1, 2, 3)),
    "group_norm": Pattern(IMAGES, weighted(_group_norm, 1, 2, 3)),
    "instance": Pattern(IMAGES, alone(_instance_norm, 2, 3)),
    "l2ch": Pattern(IMAGES, alone(partial(F.normalize, dim=1), 2, 3)),
    "softmax_ch": Pattern(IMAGES, alone(partial(torch.softmax, dim=1), 2, 3)),
    "logsoftmax_ch": Pattern(IMAGES, alone(partial(torch.log_softmax, dim=1), 2, 3)),
    "max_ch": Pattern(IMAGES, alone(partial(torch.amax, dim=1), 1, 2)),
    "mean_sq_hw": Pattern(IMAGES, alone(lambda x: x.pow(2).mean((2, 3)), 1, 2)),
    "mean_hw": Pattern(IMAGES, alone(lambda x: x.mean((2, 3)), 1, 1)),
    "sum_first": Pattern(IMAGES, alone(lambda x: x.pow(2).sum(0), 1, 2)),
    "excited": Pattern(IMAGES, scaled(_excited, (0, 1), 2, 3)),
    "residual_scale": Pattern(IMAGES, _residual_scale),
    "perm": Pattern(IMAGES, alone(lambda x: x.permute(0, 2, 3, 1).relu().contiguous(), 2, 3)),
    "patches": Pattern(IMAGES, _cut),
    "doubled": Pattern(IMAGES, alone(_doubled, 5, 5)),
    "merged": Pattern(IMAGES, alone(_merged, 2, 3)),
    "largest": Pattern(IMAGES, alone(_largest, 1.25, 2.25)),
    "averaged": Pattern(IMAGES, alone(partial(F.avg_pool2d, kernel_size=2), 1.25, 1.25)),
    "shifted": Pattern(IMAGES, alone(_shifted, 2, 2)),
    "padded": Pattern(IMAGES, alone(lambda x: F.pad(x, (1, 1, 1, 1)), 2, 2)),
    "variation": Pattern(IMAGES, alone(_total_variation, 1, 2)),
    "dice": Pattern(IMAGES, paired(_dice, 2, 3, TARGET)),
    "dice_ce": Pattern(IMAGES, _dice_cross_entropy),
    "ce_ch": Pattern(IMAGES, cross_entropy),
}
