"""Kernels of the host on tensors between pages that nobody may touch: `python -m tests.guarded`.

An access before or behind one ends the process. With the name of a program only that one is run;
`random` runs the random programs of the seeds that follow, in kernels for a machine of the size of
an H200; `beside` reads a byte behind a tensor, as a kernel that is wrong would.
"""

from __future__ import annotations

import ctypes
import mmap
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from unittest.mock import patch

import thunder
import torch
import torch.nn.functional as F

from tests.programs import STRICT, WIDEST_HOST
from tests.random_fusions import MEDIUM, random_fusion
from thunder_fuser import fuser, pipeline

ALIGNMENT = 16
GUARD = 1 << 20  # bytes that nobody may touch on either side: rows may be far apart
PROT_NONE = 0
LIBC = ctypes.CDLL(None, use_errno=True)


def guarded(x: torch.Tensor, is_last: bool) -> torch.Tensor:
    """A copy in the same strides that begins behind such pages or, as far as its alignment allows,
    ends before some."""
    found = room(x.shape, x.stride(), x.dtype, is_last=is_last)
    size = spanned(x.shape, x.stride())
    found.as_strided((size,), (1,)).copy_(x.as_strided((size,), (1,)))
    return found


def spanned(shape: Sequence[int], strides: Sequence[int]) -> int:
    """Elements from the first one to the last one, those of others between them too."""
    reach = 1 + sum((n - 1) * step for n, step in zip(shape, strides, strict=True))
    return 0 if 0 in shape else reach


def room(
    shape: Sequence[int],
    strides: Sequence[int],
    dtype: torch.dtype,
    device: object = None,
    *,
    is_last: bool,
) -> torch.Tensor:
    """An uninitialised tensor there."""
    count, page = spanned(shape, strides), mmap.PAGESIZE
    if not count:
        return torch.empty(shape, dtype=dtype)
    size = count * dtype.itemsize
    inside = -(-size // page) * page
    region = mmap.mmap(-1, inside + 2 * GUARD)
    base = ctypes.addressof(ctypes.c_char.from_buffer(region))
    for start in (0, GUARD + inside):
        if LIBC.mprotect(ctypes.c_void_p(base + start), ctypes.c_size_t(GUARD), PROT_NONE):
            raise OSError(ctypes.get_errno(), "mprotect")
    offset = GUARD + ((inside - size) // ALIGNMENT * ALIGNMENT if is_last else 0)
    flat = torch.frombuffer(region, dtype=dtype, count=count, offset=offset)
    return flat.as_strided(shape, strides)


def layer_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return F.layer_norm(x, x.shape[-1:], w, w)


def channel_norm(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    away = x - x.mean(1, keepdim=True)
    return away * torch.rsqrt(away.pow(2).mean(1, keepdim=True) + 1e-6) * w[:, None, None]


def channels_last(x: torch.Tensor) -> torch.Tensor:
    return F.relu(x).movedim(1, -1).contiguous()


PROGRAMS: dict[str, tuple[Callable[..., torch.Tensor], tuple[tuple[int, ...], ...]]] = {
    "sums both ways of a padded plane": (
        lambda x, y: (lambda p: torch.cat((p.sum(0), p.sum(1))))(F.pad(x * y, (8, 8), value=2.0)),
        ((1024, 512), (1024, 512)),
    ),
    "softmax of padded rows": (lambda x: torch.softmax(F.pad(x, (3, 5)), -1), ((97, 120),)),
    "norm of padded columns": (lambda x: F.normalize(F.pad(x, (0, 0, 4, 4)), dim=0), ((60, 96),)),
    "windows": (lambda x: (x[:, 3:-5] * 2 - x[:, 8:]).sum(-1), ((31, 264),)),
    "a rolled plane": (lambda x: torch.roll(x, (3, -5), (0, 1)).cumsum(-1), ((33, 72),)),
    "a cat of odd rows": (lambda x, y: torch.cat((x, -y), -1).sin(), ((17, 31), (17, 33))),
    "planes padded all around": (lambda x: F.pad(x, (1, 1, 1, 1), value=2.0), ((9, 28, 28),)),
    "rolled images": (lambda x: torch.roll(x, (-3, -3), (1, 2)), ((9, 27, 23),)),
    "norm of odd rows": (layer_norm, ((1021, 300), (300,))),
    "norm of odd short rows": (layer_norm, ((1277, 37), (37,))),
    "odd short rows that end inside a vector": (lambda x: torch.softmax(x, -1), ((333, 37),)),
    "norm of many short rows": (layer_norm, ((1277, 64), (64,))),
    "odd rows beside vectors": (lambda x: torch.softmax(x, -1), ((339, 1023),)),
    "norm of odd rows beside vectors": (
        lambda x, w: F.rms_norm(x, x.shape[-1:], w),
        ((129, 1030), (1030,)),
    ),
    "norm of long rows": (layer_norm, ((64, 4097), (4097,))),
    "norm of channels": (channel_norm, ((5, 40, 14, 14), (40,))),
    "norm of channels of odd images": (channel_norm, ((3, 21, 5, 7), (21,))),
    "norm of patches": (lambda x, w: layer_norm(x.flatten(2).mT, w), ((4, 48, 7, 7), (48,))),
    "a turned plane": (lambda x: (x * 2).mT.contiguous().sin(), ((67, 131),)),
    "channels that come last": (channels_last, ((3, 31, 16, 16),)),
    "channels of odd images": (channels_last, ((13, 16, 7, 7),)),
    "channels of odd large images": (channels_last, ((2, 40, 19, 19),)),
    "column sums": (lambda x: (x * x).sum(0), ((2050, 33),)),
    "a full sum": (lambda x: x.square().mean(), ((1031, 67),)),
    "odd images less their mean": (
        lambda x: x - x.square().mean((2, 3), keepdim=True),
        ((5, 3, 37, 41),),
    ),
    "logarithms of sums of channels": (
        lambda x: torch.logsumexp(x, 1) * x[:, 3],
        ((3, 40, 14, 14),),
    ),
    "group norm": (lambda x, w: F.group_norm(x, 4, w), ((3, 12, 7, 9), (12,))),
}


def run(name: str, dtype: torch.dtype) -> None:
    """Forward and backward, of arguments and a cotangent that are guarded; one plan has those that
    begin behind a page and those that end before one."""
    program, shapes = PROGRAMS[name]
    jfn = thunder.jit(program, executors=[fuser], fuser_tune="off")
    for is_last in (False, True):
        print(name, dtype, "last" if is_last else "first", flush=True)
        args = [guarded(torch.randn(s).to(dtype), is_last).requires_grad_() for s in shapes]
        result = jfn(*args)
        cotangent = guarded(torch.randn(result.shape).to(result.dtype), is_last)
        for gradient in torch.autograd.grad(result, args, cotangent):
            assert gradient.isfinite().all()


def run_random(seed: int) -> None:
    """A random program; its results are guarded too."""
    program, tensors = random_fusion(seed, 14, MEDIUM)
    for is_last in (False, True):
        print(f"FUSION_TEST_SEED={seed}", "last" if is_last else "first", flush=True)
        given = [guarded(x, is_last) for x in tensors]
        within = patch.object(torch, "empty_strided", partial(room, is_last=is_last))
        with patch.object(pipeline, "target_for", lambda device: WIDEST_HOST), within:
            pipeline.make_plan(program, given, replace(STRICT, strict=seed % 2 == 0)).run(*given)


def main(names: list[str]) -> None:
    if names[:1] == ["random"]:
        for seed in names[1:]:
            run_random(int(seed))
        return
    if names == ["beside"]:
        x = guarded(torch.randn(4096), is_last=True)
        ctypes.string_at(x.data_ptr() + x.nbytes, 1)
        return
    for name in names or PROGRAMS:
        for dtype in (torch.float32, torch.bfloat16):
            run(name, dtype)


if __name__ == "__main__":
    main(sys.argv[1:])
