"""Where the pipeline would cut a fusion for given arguments, in terms of its own tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from thunder_fuser.frontend.arguments import Runtime
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.pipeline import cut_region
from thunder_fuser.presegment import tidy
from thunder_fuser.runtime.bind import bind
from thunder_fuser.runtime.targets import target_for


def partition(
    fusion: Fusion, arguments: Sequence[Runtime], device: torch.device
) -> list[list[TensorView]]:
    """The tensors that each segment computes, in launch order; a cheap one may be in several.

    The tidied fusion is cut if every value it stores has a counterpart in `fusion`, else the
    fusion as it was written.
    """
    bound = bind(fusion, arguments, device)
    target = target_for(bound.device)
    own = {concrete: tv for tv, concrete in bound.tensors.items() if tv.definition is not None}
    for candidate in (tidy(bound.fusion), bound.fusion):
        segments = cut_region(candidate, bound.layouts, target).segments
        stored = {store.value for segment in segments for store in segment.stores}
        if stored <= set(own):
            break
    return [[own[tv] for tv in segment.made if tv in own] for segment in segments]
