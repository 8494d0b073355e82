"""Norms of channels, which lie down columns, of images and of their patches: values against fp64
beside eager's."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.executor.judging import Program, judged
from tests.executor.test_short_planes import channel_norm, softmax
from tests.pairwise import pairwise
from thunder_fuser import fuser
from thunder_fuser.executor.explain import regions_of

pytestmark = pytest.mark.sanitizer
BF16, F16, F32 = torch.bfloat16, torch.float16, torch.float32


def patches(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """As behind the convolution of a ViT: [images, channels, high, wide] to [images, patches,
    channels]."""
    tokens = x.flatten(2).transpose(1, 2)
    return F.layer_norm(tokens, tokens.shape[-1:], w, b)


def activated_patches(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return patches(F.silu(x), w, b)


CASES: dict[str, tuple[Program, torch.dtype, tuple[int, ...]]] = {
    "of 14 by 14": (patches, BF16, (4, 64, 14, 14)),
    "of 7 by 7": (patches, F32, (6, 96, 7, 7)),
    "of one row": (patches, F16, (5, 40, 1, 16)),
    "of one column": (patches, BF16, (5, 48, 24, 1)),
    "of 1": (patches, F32, (9, 50, 1, 1)),
    "of primes": (patches, BF16, (3, 37, 5, 11)),
    "of as many channels as a vector has": (patches, F16, (27, 8, 7, 7)),
    "of as few in floats": (patches, F32, (27, 4, 7, 7)),
    "activated": (activated_patches, BF16, (4, 72, 8, 12)),
}


@pytest.mark.parametrize("case", CASES)
def test_errors_are_like_those_of_eager(case: str, device: torch.device) -> None:
    program, dtype, shape = CASES[case]
    n, channels, high, wide = shape
    args = [torch.randn(shape).to(dtype), *(torch.randn(channels).to(dtype) for _ in "wb")]
    jfn = judged(program, args, torch.randn(n, high * wide, channels).to(dtype), device)
    facts = fuser.facts(jfn)
    assert facts.backward is not None
    assert facts.forward.kernels == 1
    assert facts.backward.kernels <= 2
    assert facts.whole.unclaimed_ops == 0


@pytest.mark.parametrize(
    ("image", "dtype", "program"),
    pairwise([(14, 14), (7, 7), (6, 10), (5, 11), (1, 12)], [BF16, F32], [channel_norm, softmax]),
)
def test_images_whose_rows_are_no_whole_vectors(
    image: tuple[int, int], dtype: torch.dtype, program: Program, device: torch.device
) -> None:
    shape = (5, 40, *image)
    weights = [torch.randn(40).to(dtype) for _ in ("wb" if program is channel_norm else "")]
    args = [torch.randn(shape).to(dtype), *weights]
    jfn = judged(program, args, torch.randn(shape).to(dtype), device)
    assert fuser.facts(jfn).forward.kernels == 1


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize(("size", "dtype"), [(16, BF16), (40, F32)])
def test_images_as_high_and_wide_as_they_have_channels(
    size: int, dtype: torch.dtype, device: torch.device
) -> None:
    """So that a shape does not tell channels from pixels."""
    images = 32768 // size**2
    weights = [torch.randn(size).to(dtype) for _ in "wb"]
    for program, shape in (
        (channel_norm, (images, size, size, size)),
        (patches, (images * size, size, size, 1)),
    ):
        x = torch.randn(shape).to(dtype)
        jfn = judged(program, [x, *weights], torch.randn_like(program(x, *weights)), device)
        facts = fuser.facts(jfn)
        assert facts.backward is not None
        assert facts.backward.kernels == 2
        assert facts.whole.unclaimed_ops == 0


@pytest.mark.usefixtures("one_multiprocessor")
@pytest.mark.parametrize("program", [patches, channel_norm])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((1201, 9, 7, 7), F16), ((101, 21, 16, 16), BF16), ((211, 13, 5, 11), F32)],
)
def test_few_channels_of_many_images_are_read_once(
    program: Program, shape: tuple[int, ...], dtype: torch.dtype, device: torch.device
) -> None:
    x = torch.randn(shape).to(dtype)
    args = [x, *(torch.randn(shape[1]).to(dtype) for _ in "wb")]
    facts = fuser.facts(judged(program, args, torch.randn_like(program(*args)), device))
    assert facts.backward is not None
    assert facts.backward.kernels == 2
    assert facts.whole.unclaimed_ops == 0


def test_an_image_that_is_part_of_a_larger_one(device: torch.device) -> None:
    whole = torch.randn(3, 40, 14, 20)
    args = [whole[..., 3:17].detach(), torch.randn(40), torch.randn(40)]
    judged(channel_norm, args, torch.randn(3, 40, 14, 14), device)


@pytest.mark.usefixtures("few_multiprocessors", "small_planes")
@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize(
    ("shape", "dtype"),
    [((40, 512, 7, 7), BF16), ((26, 256, 7, 7), F32), ((27, 64, 14, 14), F16)],
    ids=str,
)
def test_patches_of_images_that_shared_memory_holds(
    shape: tuple[int, ...], dtype: torch.dtype, offset: float, device: torch.device
) -> None:
    x = (torch.randn(shape) + offset).to(dtype)
    args = [x, *(torch.randn(shape[1]).to(dtype) for _ in "wb")]
    jfn = judged(patches, args, torch.randn_like(patches(*args)), device)
    facts = fuser.facts(jfn)
    assert facts.backward is not None
    assert (facts.forward.kernels, facts.backward.kernels) == (1, 2)
    used = [region.last_used for region in regions_of(jfn)]
    plans = [fd.leaf.program.plans[-1] for fd in used if fd is not None]
    texts = [kernel.text for plan in plans for kernel in plan.kernels if kernel is not None]
    assert any("tf::copy_async<16>(" in text and "_image_slots" in text for text in texts)


def windows(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """As in Swin: normed, rolled, and in windows of 4 by 4."""
    n, high, wide, channels = x.shape
    y = torch.roll(F.layer_norm(x, (channels,), w, b), (-2, -2), (1, 2))
    split = y.view(n, high // 4, 4, wide // 4, 4, channels)
    return split.permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, channels)


def merged(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """And four places as one."""
    y = torch.cat([x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)], -1)
    return F.layer_norm(y, (y.shape[-1],)) * w.repeat(4) + b.repeat(4)


@pytest.mark.parametrize("program", [windows, merged])
@pytest.mark.parametrize(("channels", "dtype"), [(48, BF16), (37, F32)])
def test_patches_whose_channels_lie_side_by_side(
    program: Program, channels: int, dtype: torch.dtype, device: torch.device
) -> None:
    args = [torch.randn(s).to(dtype) for s in ((3, 8, 12, channels), (channels,), (channels,))]
    jfn = judged(program, args, torch.randn_like(program(*args)), device)
    assert fuser.facts(jfn).forward.kernels == 1
    assert fuser.facts(jfn).whole.unclaimed_ops == 0
