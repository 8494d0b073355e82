"""Tensors that are made of numbers, of functions that Thunder 0.2.6 refuses or leaves to torch.

t0 = torch.eye(n, m)    =>    t0 = arange(n)[:, None] == arange(m), in the type that is wanted
g = ltorch.zeros(n)     =>    g = full(n, 0)

The zeros are the gradient of a result that nobody read, as of the variance of a var_mean. Thunder
binds them without parts, so that torch filled memory for a kernel to read; those without dims it
calls as torch.zeros(), which torch refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import thunder.torch as ltorch
import torch
from thunder.core.devices import to_device
from thunder.core.jit_ext import record_source_loc_in_symbol_header

from thunder_fuser.executor.claims import claimed_device_type


def _eye(
    n: int,
    m: int | None = None,
    *,
    dtype: torch.dtype | None = None,
    device: Any = None,
    requires_grad: bool = False,
    **others: Any,
) -> Any:
    if requires_grad or others:
        given = ", ".join([*others, *["requires_grad"] * requires_grad])
        raise NotImplementedError(f"thunder_fuser has no torch.eye with {given}")
    row = ltorch.unsqueeze(ltorch.arange(n, device=device), 1)
    column = ltorch.arange(n if m is None else m, device=device)
    return ltorch.to(ltorch.eq(row, column), ltorch.maybe_get_default_dtype(dtype))


def has_zeros(*shape: Any, device: Any = None, **others: Any) -> bool:
    """True for those of the claimed device."""
    return to_device(device or "cpu").devicetype is claimed_device_type()


def zeros(*shape: Any, **given: Any) -> Any:
    """As parts."""
    return ltorch.zeros.meta(*shape, **given)


FACTORIES: dict[Any, Callable[..., Any]] = {
    torch.eye: record_source_loc_in_symbol_header(_eye),
}
