"""Running segments one by one: gather by the fid map, run, store, drop after the last use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch

from thunder_fuser.frontend.arguments import TensorSpec, check_arguments, fitted
from thunder_fuser.frontend.execution import (
    Request,
    check_extents,
    draw,
    resolve_device,
    resolve_options,
)
from thunder_fuser.frontend.leaf import Leaf
from thunder_fuser.frontend.segments import Segment
from thunder_fuser.runtime.lazy import resolved, returned


@dataclass(frozen=True, eq=False)
class Segmented:
    """A fusion cut into segments. They hold for the sizes they were made with."""

    parent: Leaf
    segments: tuple[Segment, ...]

    def __len__(self) -> int:
        return len(self.segments)

    @cached_property
    def last_use(self) -> dict[int, int]:
        """The segment after which each parent fid is dropped: its last reader, else its producer.
        What is returned or written is not in it."""
        last = {fid: k for k, s in enumerate(self.segments) for fid in s.to_parent.values()}
        fids = self.parent.fids
        kept = set(fids.results)
        for write in self.parent.fusion.writes:
            kept |= {fids.fid_of[write.value], fids.fid_of[write.target]}
        return {fid: k for fid, k in last.items() if fid not in kept}

    def execute(self, inputs: Sequence[object], **request: Any) -> list[torch.Tensor]:
        """As `FusionDefinition.execute`, segment by segment; in-place writes come last."""
        asked = Request(**request)
        arguments = check_arguments(self.parent.definition.specs, inputs)
        device = resolve_device(self.parent, arguments, asked.device)
        options = resolve_options(asked)
        fids = self.parent.fids
        complete = [*arguments, *draw(self.parent.definition.draws, device)]
        check_extents(self.parent.definition, complete)
        given = resolved(complete)
        values = fids.arguments(given)
        for index, segment in enumerate(self.segments):
            leaf, to_parent = segment.leaf, segment.to_parent
            read = [values[to_parent[fid]] for fid in leaf.fids.inputs]
            for k, spec in enumerate(leaf.definition.specs):
                if isinstance(spec, TensorSpec):
                    read[k] = fitted(spec, read[k])
            results = leaf.program.run(read, options, device)
            for fid, result in zip(leaf.fids.outputs, results, strict=True):
                values[to_parent[fid]] = result
            for fid in [f for f, last in self.last_use.items() if last == index]:
                values.pop(fid, None)
        return returned(self._finish(values), complete, given, self.parent.written)

    def _finish(self, values: dict[int, Any]) -> list[torch.Tensor]:
        """Copy what is written in place into its target, and give the outputs. A returned view of
        a target shows the new value, as in eager."""
        fids, writes = self.parent.fids, self.parent.fusion.writes
        targets = {
            fids.fid_of[w.value]: (values[fids.fid_of[w.value]], values[fids.fid_of[w.target]])
            for w in reversed(writes)
        }
        for value, target in [(v.clone(), t) for v, t in targets.values()]:
            target.copy_(value)
        return [targets[fid][1] if fid in targets else values[fid] for fid in fids.results]
