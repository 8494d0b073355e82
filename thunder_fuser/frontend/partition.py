"""Where the pipeline would cut a fusion for given arguments, in terms of its own tensors."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from thunder_fuser.frontend.arguments import Runtime
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.pipeline import cut_region
from thunder_fuser.presegment import arrange, tidy
from thunder_fuser.runtime.bind import bind
from thunder_fuser.runtime.targets import target_for


def partition(
    fusion: Fusion, arguments: Sequence[Runtime], options: Options, device: torch.device
) -> list[list[TensorView]]:
    """The tensors that each segment computes, in launch order; a cheap one may be in several.

    They are those of the plan if every value it stores has a counterpart in `fusion`, as all that
    is returned has. Else the tidied fusion is cut, or the fusion as it was written, all of whose
    values are read as they are: as with `strict`.
    """
    bound = bind(fusion, arguments, device)
    target = target_for(bound.device)
    own = {concrete: [tv] for tv, concrete in bound.tensors.items() if tv.definition is not None}
    tidied = tidy(bound.fusion)
    arranged = arrange(tidied, bound.layouts, target, strict=options.strict)
    copies = options.alias == "copy"
    for candidate, strict in ((arranged, options.strict), (tidied, True), (bound.fusion, True)):
        found = cut_region(candidate, bound.layouts, target, copies, strict=strict)
        known = own | _results(found.fusion, fusion)
        stored = {store.value for segment in found.segments for store in segment.stores}
        if stored <= set(known):
            break
    return [
        list(dict.fromkeys(tv for made in segment.made for tv in known.get(made, ())))
        for segment in found.segments
    ]


def _results(rewritten: Fusion, fusion: Fusion) -> dict[TensorView, list[TensorView]]:
    """What leaves `fusion`, by what became of it; several tensors may have become one."""
    pairs = [
        *zip(rewritten.outputs, fusion.outputs, strict=True),
        *((new.value, old.value) for new, old in zip(rewritten.writes, fusion.writes, strict=True)),
    ]
    found = dict[TensorView, list[TensorView]]()
    for new, old in pairs:
        if old.definition is not None:
            found.setdefault(new, []).append(old)
    return found
