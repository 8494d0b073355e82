"""Which target a device is."""

from __future__ import annotations

from functools import cache

import torch

from thunder_fuser.runtime.cuda_kernel import target_of
from thunder_fuser.target import HOST, Target


def target_for(device: torch.device) -> Target:
    """The GPU's target, or the host for CPU tensors.

    Raises ValueError for a device of another kind.
    """
    if device.type == "cuda":
        return _cuda_target(device)
    if device.type == "cpu":
        return HOST
    raise ValueError(f"no target for tensors on {device}; thunder_fuser runs on cuda and cpu")


_cuda_target = cache(target_of)
