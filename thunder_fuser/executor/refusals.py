"""Refuse what torch refuses, where Thunder's composition of an op takes it.

    gelu(x)        x: i64         =>    NotImplementedError: gelu of integers (its input is int64)

Thunder gives floats for an activation of integers. What passes is left to Thunder's symbol.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import thunder.core.dtypes as dtypes
import torch
import torch.nn.functional as F
from thunder.core.proxies import TensorProxy

from thunder_fuser.executor.stand_ins import Compose


def _not_of(kind: str, is_refused: Callable[[Any], bool], name: str) -> Compose:
    def check(*args: Any, **kwargs: Any) -> Any:
        a = args[0] if args else kwargs.get("input")
        if isinstance(a, TensorProxy) and is_refused(a.dtype):
            raise NotImplementedError(
                f"{name} of {kind} (its input is {_name(a)}): convert it first, as in x.float()"
            )
        return NotImplemented

    return check


def _cross_entropy(input: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
    """Classes are int64, or bytes where they are no planes; other targets are probabilities."""
    are_planes = isinstance(input, TensorProxy) and input.ndim > 2
    allowed = (dtypes.int64,) if are_planes else (dtypes.int64, dtypes.uint8)
    if isinstance(target, TensorProxy) and dtypes.is_exact_dtype(target.dtype):
        _check_dtype(target, "the target of a cross entropy", allowed, "target.long()")
    return NotImplemented


def _embedding(input: Any, weight: Any, padding_idx: Any = None, *args: Any, **kwargs: Any) -> Any:
    _check_index(input, "the input of an embedding")
    rows = weight.shape[0]
    if isinstance(padding_idx, int) and isinstance(rows, int) and not -rows <= padding_idx < rows:
        raise AssertionError(
            f"padding_idx={padding_idx} of an embedding of {rows} rows: give one from {-rows} to "
            f"{rows - 1}, or None"
        )
    return NotImplemented


def _take_along_dim(input: Any, indices: Any, dim: Any = None) -> Any:
    _check_dtype(indices, "the index of take_along_dim", (dtypes.int64,), "indices.long()")
    return NotImplemented


def _along(name: str) -> Compose:
    def check(input: Any, dim: Any, index: Any, *args: Any, **kwargs: Any) -> Any:
        _check_index(index, f"the index of {name}")
        return NotImplemented

    return check


def _check_index(index: Any, what: str) -> None:
    _check_dtype(index, what, (dtypes.int64, dtypes.int32), "index.long()")


def _check_dtype(tensor: Any, what: str, allowed: Sequence[Any], remedy: str) -> None:
    """Raise RuntimeError unless the tensor is of one of those types."""
    if isinstance(tensor, TensorProxy) and dtypes.to_strong_dtype(tensor.dtype) not in allowed:
        types = " or ".join(str(dtypes.to_torch_dtype(d)).removeprefix("torch.") for d in allowed)
        raise RuntimeError(f"{what} is to be {types}, but is {_name(tensor)}: give {remedy}")


def _name(tensor: TensorProxy) -> str:
    return str(dtypes.to_torch_dtype(tensor.dtype)).removeprefix("torch.")


_OF_FLOATS = (
    F.celu, F.elu, F.gelu, F.glu, F.hardshrink, F.hardsigmoid, F.leaky_relu, F.logsigmoid, F.mish,
    F.selu, F.silu, F.softplus, F.softshrink, torch.addcdiv, torch.lerp,
)  # fmt: skip
_OF_NUMBERS = (F.hardtanh, F.relu, F.relu6, F.softsign, F.tanhshrink, F.threshold)

REFUSALS: dict[Any, Compose] = {
    **{f: _not_of("integers", dtypes.is_exact_dtype, f.__name__) for f in _OF_FLOATS},
    **{f: _not_of("bools", dtypes.is_boolean_dtype, f.__name__) for f in _OF_NUMBERS},
    F.cross_entropy: _cross_entropy,
    F.nll_loss: _cross_entropy,
    F.embedding: _embedding,
    torch.gather: _along("gather"),
    torch.index_add: _along("index_add"),
    torch.index_select: _along("index_select"),
    torch.take_along_dim: _take_along_dim,
}
