"""What torch does for a tensor that it writes in place, for those that kernels write.

A kernel knows addresses alone, so torch learns of its writes here: a gradient that was to be
computed from the old value is refused then, as it is after an op of torch's own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import torch
from torch.autograd.graph import increment_version


def check_writable(arguments: Sequence[object], written: Iterable[int]) -> None:
    """Raises RuntimeError where torch would not write in place: into a leaf whose gradient is asked
    for, and into an inference tensor outside of inference mode."""
    for position in written:
        target = arguments[position]
        assert isinstance(target, torch.Tensor)
        if target.requires_grad and target.is_leaf and torch.is_grad_enabled():
            raise RuntimeError(
                "a leaf Variable that requires grad is being used in an in-place operation: "
                f"argument {position}; write under torch.no_grad()"
            )
        if target.is_inference() and not torch.is_inference_mode_enabled():
            raise RuntimeError(
                f"argument {position} is an inference tensor, written outside of inference mode; "
                "clone it first"
            )


def note_writes(arguments: Sequence[object], written: Iterable[int]) -> None:
    """Move the versions of what was written."""
    targets = [arguments[position] for position in written]
    increment_version([t for t in targets if isinstance(t, torch.Tensor)])
