"""Tensors that torch conjugates or negates only when it reads them.

    x.conj()       the memory of x, and a bit that says so
    x.conj().imag  the same memory as real numbers, and another bit

A kernel reads memory, so it is given what torch reads there, at the strides that the tensor has.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch


def is_lazy(value: object) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_conj() or value.is_neg())


def resolved(arguments: Sequence[Any]) -> Sequence[Any]:
    """The arguments, with memory that holds what torch reads; themselves where all are read so."""
    if not any(map(is_lazy, arguments)):
        return arguments
    return [_resolved(a) if is_lazy(a) else a for a in arguments]


def returned(
    made: Sequence[torch.Tensor], arguments: Sequence[Any], given: Sequence[Any], writes: bool
) -> list[torch.Tensor]:
    """What was `made` of the `given` in place of the arguments, which take what was written."""
    if given is arguments:
        return list(made)
    for argument, stand_in in zip(arguments, given, strict=True):
        if writes and stand_in is not argument:
            argument.copy_(stand_in)
    originals = dict(zip(map(id, given), arguments, strict=True))
    return [originals.get(id(tensor), tensor) for tensor in made]


def _resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Laid out alike; expanded dims stay so."""
    once = tensor.detach()[tuple(slice(0, 1) if s == 0 else slice(None) for s in tensor.stride())]
    fresh = torch.empty_strided(once.shape, once.stride(), dtype=once.dtype, device=once.device)
    return fresh.copy_(once).expand(tensor.shape)
