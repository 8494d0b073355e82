"""In-place targets that overlap other arguments at run time."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def separate(tensors: Sequence[torch.Tensor], written: Sequence[int]) -> list[torch.Tensor]:
    """`tensors` with every one that overlaps a written one replaced by a copy of the same strides.

    The written ones stay, so that the write reaches the caller. Raises RuntimeError where two
    written ones overlap: which write should win is undefined.
    """
    out = list(tensors)
    for target in written:
        for position, tensor in enumerate(tensors):
            if position == target or not may_overlap(tensors[target], tensor):
                continue
            if position in written:
                raise RuntimeError(
                    f"arguments {target} and {position} are both written in place and share memory "
                    f"(shapes {tuple(tensors[target].shape)} and "
                    f"{tuple(tensors[position].shape)}); give one of them storage of its own"
                )
            out[position] = _copy(tensor)
    return out


def may_overlap(a: torch.Tensor, b: torch.Tensor) -> bool:
    """False only where no byte belongs to both.

    Apart from byte ranges, this sees pieces that interleave: modulo a stride of both (the row of
    one matrix), each lies in one interval, and the intervals do not meet.
    """
    if a.numel() == 0 or b.numel() == 0:
        return False
    if _end(a) <= b.data_ptr() or _end(b) <= a.data_ptr():
        return False
    return not any(_apart(a, b, period) for period in {*_byte_strides(a), *_byte_strides(b)})


def _apart(a: torch.Tensor, b: torch.Tensor, period: int) -> bool:
    length_a, length_b = _interval(a, period), _interval(b, period)
    distance: int = (b.data_ptr() - a.data_ptr()) % period
    return length_a <= distance and length_b <= period - distance


def _interval(tensor: torch.Tensor, period: int) -> int:
    """Bytes from the first element to the end of the last, steps of whole periods left out."""
    item: int = tensor.element_size()
    inner = ((n, s) for n, s in _dims(tensor) if (s * item) % period)
    return item * (1 + sum((n - 1) * s for n, s in inner))


def _byte_strides(tensor: torch.Tensor) -> list[int]:
    """Steps between neighbours, of the dims that have any."""
    return [s * tensor.element_size() for n, s in _dims(tensor) if n > 1 and s]


def _end(tensor: torch.Tensor) -> int:
    """One past the address of the last byte of a tensor that has elements."""
    return int(tensor.data_ptr() + _span(tensor) * tensor.element_size())


def _span(tensor: torch.Tensor) -> int:
    """Elements from the first to the last, gaps included."""
    return 1 + sum((n - 1) * s for n, s in _dims(tensor))


def _dims(tensor: torch.Tensor) -> list[tuple[int, int]]:
    return list(zip(tensor.shape, tensor.stride(), strict=True))


def _copy(tensor: torch.Tensor) -> torch.Tensor:
    """The same values and strides in storage of its own: kernels are compiled for the strides."""
    return (
        tensor.as_strided((_span(tensor),), (1,)).clone().as_strided(tensor.shape, tensor.stride())
    )
