"""In-place targets that overlap other arguments at run time."""

from __future__ import annotations

from collections.abc import Sequence

import torch


def separate(tensors: Sequence[torch.Tensor], written: Sequence[int]) -> list[torch.Tensor]:
    """`tensors` with every one that overlaps a written one replaced by a copy.

    The written ones stay, so that the write reaches the caller. Raises RuntimeError where two
    written ones overlap: which write should win is undefined.
    """
    out = list(tensors)
    ranges = [_byte_range(t) for t in tensors]
    for target in written:
        first, last = ranges[target]
        for position, (begin, end) in enumerate(ranges):
            if position == target or begin >= last or first >= end:
                continue
            if position in written:
                raise RuntimeError(
                    f"arguments {target} and {position} are both written in place and share memory "
                    f"(shapes {tuple(tensors[target].shape)} and "
                    f"{tuple(tensors[position].shape)}); give one of them storage of its own"
                )
            out[position] = tensors[position].clone()
    return out


def _byte_range(tensor: torch.Tensor) -> tuple[int, int]:
    """Addresses from the first byte to one past the last."""
    start = tensor.data_ptr()
    if tensor.numel() == 0:
        return start, start
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return start, start + (reach + 1) * tensor.element_size()
