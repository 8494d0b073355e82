"""What a definition demands of its runtime arguments, and the check of one call.

The check runs in `FusionDefinition.execute`; whoever calls a leaf's program directly (the Thunder
executor, whose guards have looked already) does not pay for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch

from thunder_fuser.analysis.layout import misfit
from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.constants import as_integer
from thunder_fuser.frontend.layout import compute_tensor_descriptor
from thunder_fuser.ir.scalar import Number, python_dtype
from thunder_fuser.runtime.dtypes import TORCH_DTYPES


@dataclass(frozen=True)
class TensorSpec:
    """A tensor input as `define_tensor` recorded it: -1 in `shape` is any size, 1 a broadcast;
    `contiguity` in allocation order, None for a broadcast or expanded dim."""

    fid: int
    shape: tuple[int, ...]
    contiguity: tuple[bool | None, ...]
    dtype: DataType
    is_cpu: bool
    stride_order: tuple[int, ...]

    def __str__(self) -> str:
        return f"T{self.fid} ({self.dtype}, shape {list(self.shape)})"

    @cached_property
    def allocation(self) -> tuple[int, ...]:
        """The logical dims, outermost in memory first."""
        return tuple(sorted(range(len(self.shape)), key=lambda d: -self.stride_order[d]))


@dataclass(frozen=True)
class ScalarSpec:
    """A number given at run time."""

    fid: int
    dtype: DataType

    def __str__(self) -> str:
        return f"S{self.fid} ({self.dtype})"


InputSpec: TypeAlias = TensorSpec | ScalarSpec
Runtime: TypeAlias = "torch.Tensor | Number"


def flatten(inputs: Sequence[object]) -> list[object]:
    """Lists and tuples among the arguments, which stand for Vectors, replaced by their elements."""
    flat: list[object] = []
    for value in inputs:
        if isinstance(value, list | tuple):
            flat.extend(value)
        else:
            flat.append(value)
    return flat


def check_arguments(specs: Sequence[InputSpec], inputs: Sequence[object]) -> list[Runtime]:
    """The flat arguments, once each fits its spec and the tensors share a device.

    Raises TypeError for a wrong kind or dtype, ValueError for everything else.
    """
    flat = flatten(inputs)
    if len(flat) != len(specs):
        wanted = ", ".join(map(str, specs))
        raise ValueError(f"{len(flat)} arguments given, {len(specs)} expected: {wanted}")
    for position, (spec, value) in enumerate(zip(specs, flat, strict=True)):
        try:
            if isinstance(spec, TensorSpec):
                _check_tensor(spec, value)
            else:
                _check_number(spec, value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"argument {position} for {spec}: {error}") from None
        except RuntimeError as error:  # of torch, for a tensor that has no strides or no sizes
            raise TypeError(f"argument {position} for {spec}: {error}") from error
    _check_devices(specs, flat)
    return flat


def _check_tensor(spec: TensorSpec, value: object) -> None:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"expected a tensor, got {type(value).__name__} {value!r}")
    if value.dtype is not TORCH_DTYPES[spec.dtype]:
        raise TypeError(f"expected dtype {spec.dtype}, got {value.dtype}")
    if value.ndim != len(spec.shape):
        raise ValueError(f"expected rank {len(spec.shape)}, got shape {list(value.shape)}")
    for dim, (want, have) in enumerate(zip(spec.shape, value.shape, strict=True)):
        if want not in (-1, have):
            kind = "a broadcast dim" if want == 1 else f"size {want}"
            raise ValueError(f"dim {dim} is {kind} in the definition, got size {have}")
    if spec.is_cpu and value.device.type != "cpu":
        raise ValueError(f"expected a CPU scalar, got a tensor on {value.device}")
    _check_layout(spec, value)
    if not value.data_ptr() and value.numel():
        raise ValueError(f"the {type(value).__name__} on {value.device} has no memory to read")


def _check_layout(spec: TensorSpec, value: torch.Tensor) -> None:
    """Strides must fall in the order of the definition and be dense where it says so."""
    sizes, strides = value.shape, value.stride()
    problem = misfit(spec.allocation, spec.contiguity, sizes, strides)
    if problem is not None:
        found = compute_tensor_descriptor(sizes, strides)
        raise ValueError(
            f"{problem}; contiguity {list(found.contiguity)} and stride order "
            f"{list(found.stride_order)} describe it"
        )


def fitted(spec: TensorSpec, value: torch.Tensor) -> torch.Tensor:
    """`value`, or where its layout does not fit, a dense copy in the spec's stride order."""
    try:
        _check_layout(spec, value)
    except ValueError:
        inverse = sorted(range(value.ndim), key=spec.allocation.__getitem__)
        return value.permute(spec.allocation).contiguous().permute(inverse)
    return value


def _check_number(spec: ScalarSpec, value: object) -> None:
    if not isinstance(value, bool | int | float | complex):
        raise TypeError(f"expected a number, got {type(value).__name__}")
    if python_dtype(value).category > spec.dtype.category:
        raise TypeError(f"expected {spec.dtype}, got {type(value).__name__} {value!r}")
    if isinstance(value, int):
        as_integer(value, spec.dtype if spec.dtype.is_integral else DataType.Int)


def _check_devices(specs: Sequence[InputSpec], values: Sequence[object]) -> None:
    devices = [
        (spec.fid, value.device)
        for spec, value in zip(specs, values, strict=True)
        if isinstance(value, torch.Tensor) and not (isinstance(spec, TensorSpec) and spec.is_cpu)
    ]
    if any(device != devices[0][1] for _, device in devices):
        text = ", ".join(f"T{fid} on {device}" for fid, device in devices)
        raise ValueError(f"the inputs lie on different devices: {text}")
