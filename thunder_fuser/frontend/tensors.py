"""The three ways to describe a tensor input, each giving the one canonical record."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from thunder_fuser.frontend.constants import as_int64
from thunder_fuser.frontend.element_types import element_type
from thunder_fuser.frontend.layout import (
    canonical_contiguity,
    canonical_stride_order,
    compute_tensor_descriptor,
    integers,
)
from thunder_fuser.frontend.records import DEFINE_TENSOR, Record, Static


def described_tensor(
    shape: Sequence[int],
    contiguity: object,
    dtype: object,
    is_cpu: bool,
    stride_order: Sequence[int],
) -> Record:
    """By shape (-1 symbolic, 0 empty, 1 broadcast, n static) and contiguity, True if not given.
    Raises TypeError for a size that is no int, ValueError for one below -1 and for `is_cpu` of a
    rank above 0."""
    dims = [as_int64(size) for size in integers(shape, "shape")]
    for dim, size in enumerate(dims):
        if size < -1:
            raise ValueError(f"shape[{dim}] is {size}; legal: -1 (symbolic), 0, 1 (broadcast), n")
    if is_cpu and dims:
        raise ValueError(f"is_cpu with rank {len(dims)}: only 0-dim CPU tensors can be inputs")
    order = canonical_stride_order(stride_order, len(dims))
    entries = canonical_contiguity(True if contiguity is None else contiguity, dims, order)
    attrs: dict[str, Static] = {
        "shape": tuple(dims),
        "contiguity": entries,
        "dtype": element_type(dtype),
        "is_cpu": bool(is_cpu),
        "stride_order": order,
    }
    return Record(DEFINE_TENSOR, tuple(attrs.items()))


def derived_tensor(
    sizes: Sequence[int], strides: Sequence[int], dtype: object, static_sizes: bool, is_cpu: bool
) -> Record:
    """By an example's sizes and strides: size 1 is a broadcast, others symbolic unless static.
    Raises TypeError for what is no int, ValueError for a negative one."""
    sizes, strides = integers(sizes, "sizes"), integers(strides, "strides")
    for dim, size in enumerate(sizes):
        if size < 0:
            raise ValueError(f"sizes[{dim}] is {size}; legal: 0 and above")
    descriptor = compute_tensor_descriptor(sizes, strides)
    shape = [size if static_sizes or size == 1 else -1 for size in sizes]
    return described_tensor(shape, descriptor.contiguity, dtype, is_cpu, descriptor.stride_order)


def torch_tensor(tensor: torch.Tensor, static_sizes: bool) -> Record:
    """By a torch tensor on CUDA, or on the CPU if its rank is 0. Raises TypeError and ValueError
    for others."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"wants a torch.Tensor, not {type(tensor).__name__}")
    device = tensor.device.type
    if device != "cuda" and (device != "cpu" or tensor.ndim):
        raise ValueError(
            f"a tensor of shape {list(tensor.shape)} on {tensor.device}: inputs are CUDA tensors "
            "and 0-dim CPU tensors; describe any other with define_tensor(sizes=, strides=)"
        )
    return derived_tensor(
        tensor.shape, tensor.stride(), tensor.dtype, static_sizes, device == "cpu"
    )
