"""Sizes and dtypes that nobody tuned for: columns that no power of two divides, a few long rows,
many short ones, planes of one sequence, other floats, weights wider than what they scale."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import torch

from benchmarks import kernels
from benchmarks.cases import Case, Workload

_SHAPES = ((16384, 4097), (16384, 5000), (4096, 50257), (8, 1 << 20), (1 << 20, 64))
_SEQUENCES = ((4096, 4096), (2048, 2048), (512, 4096))  # that leave some of a machine idle
_QUICK_SHAPES = ((9, 257), (2, 3001), (301, 8))
_USUAL, _QUICK_USUAL = ((16384, 4096),), ((17, 96),)


def _workload(
    name: str,
    build: Callable[..., Case],
    shapes: Sequence[tuple[int, int]],
    quick: Sequence[tuple[int, int]],
) -> Workload:
    sizes, small = (
        tuple({"rows": rows, "columns": columns} for rows, columns in found)
        for found in (shapes, quick)
    )
    return Workload(name, build, sizes, small)


_OPS: dict[str, Callable[..., Case]] = {
    "softmax": kernels.softmax,
    "rmsnorm": kernels.rms_norm,
    "layernorm": kernels.layer_norm,
    "cross_entropy": kernels.cross_entropy,
    "gelu_bias": kernels.gelu_bias,
    "column_sum": kernels.column_sum,
}
_MIXED = ("rmsnorm", "layernorm", "gelu_bias")  # those with weights

WORKLOADS: Sequence[Workload] = (
    *(
        _workload(name, build, (*_SHAPES, *(_SEQUENCES if name in _MIXED else ())), _QUICK_SHAPES)
        for name, build in _OPS.items()
    ),
    *(
        replace(_workload(f"{name}_{suffix}", _OPS[name], _USUAL, _QUICK_USUAL), dtype=dtype)
        for suffix, dtype in (("f32", torch.float32), ("f16", torch.float16))
        for name in _OPS
    ),
    *(
        replace(
            _workload(f"{name}_f32_weights", _OPS[name], _USUAL, _QUICK_USUAL),
            weight_dtype=torch.float32,
        )
        for name in _MIXED
    ),
)
