"""Tensors that torch conjugates or negates only when it reads them.

    x.conj()       the memory of x, and a bit that says so
    x.conj().imag  the same memory as real numbers, and another bit

A kernel reads memory, so it is given what torch reads there, at the strides that the tensor has.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
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
    made: Sequence[torch.Tensor],
    arguments: Sequence[Any],
    given: Sequence[Any],
    written: Collection[int],
) -> list[torch.Tensor]:
    """What was `made` of the `given` in place of the arguments, which take what was `written` at
    their positions. What lies in memory of one of the given lies in that of the argument then."""
    if given is arguments:
        return list(made)
    pairs = list(zip(arguments, given, strict=True))
    for argument, stand_in in (pairs[k] for k in written):
        if stand_in is not argument:
            argument.copy_(stand_in)
    shown = {_memory(own): (a, own) for a, own in pairs if own is not a and own.numel()}
    return [_shown(tensor, *shown.get(_memory(tensor), (tensor, tensor))) for tensor in made]


def _memory(tensor: torch.Tensor) -> int:
    address: int = tensor.untyped_storage().data_ptr()
    return address


def _shown(tensor: torch.Tensor, argument: torch.Tensor, stand_in: torch.Tensor) -> torch.Tensor:
    """`tensor`, or the view of the argument that it is of what stands in for that."""
    if tensor is stand_in:
        return argument
    offset = tensor.storage_offset() - stand_in.storage_offset() + argument.storage_offset()
    return argument.as_strided(tensor.shape, tensor.stride(), offset)


def _resolved(tensor: torch.Tensor) -> torch.Tensor:
    """Laid out alike; expanded dims stay so."""
    once = tensor.detach()[tuple(slice(0, 1) if s == 0 else slice(None) for s in tensor.stride())]
    fresh = torch.empty_strided(once.shape, once.stride(), dtype=once.dtype, device=once.device)
    return fresh.copy_(once).expand(tensor.shape)
