"""A segment that torch runs: its part of the fusion, evaluated op by op.

What it stores comes back as a kernel would have left it: laid out as planned, in its own storage.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.reductions import is_ordering
from thunder_fuser.ir.extract import extract
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.scalar import Number
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.evaluate import evaluate, op_function
from thunder_fuser.segment.segment import Segment

Argument: TypeAlias = "torch.Tensor | Number"
TorchSegment: TypeAlias = Callable[..., list[torch.Tensor]]


def torch_inputs(segment: Segment) -> tuple[TensorView, ...]:
    """The tensors that a torch segment is called with: what it reads, then other targets."""
    targets = (s.target for s in segment.stores if s.is_in_place)
    return tuple(dict.fromkeys((*segment.inputs, *targets)))


def torch_outputs(segment: Segment) -> tuple[TensorView, ...]:
    """The tensors that a torch segment returns: fresh ones; targets are written in place."""
    return tuple(s.value for s in segment.stores if not s.is_in_place)


def torch_fusion(segment: Segment) -> Fusion:
    """The segment as a fusion of `torch_inputs` and the segment's scalars."""
    writes = [(s.value, s.target) for s in segment.stores if s.is_in_place]
    return extract(torch_inputs(segment), segment.scalars, torch_outputs(segment), writes)


def torch_segment(segment: Segment, device: torch.device) -> TorchSegment:
    """A function of `torch_inputs` and scalars that runs the segment on `device`; it returns
    `torch_outputs`."""
    value = segment.stores[0].value
    if is_ordering(value) and segment.tensors == (*segment.inputs, value):
        return _ordering_segment(value, device)
    part = torch_fusion(segment)
    layouts = [segment.layouts[tv] for tv in torch_outputs(segment)]

    def run(*arguments: Argument) -> list[torch.Tensor]:
        return _own(evaluate(part, arguments, device=device), layouts, arguments)

    return run


def _ordering_segment(value: TensorView, device: torch.device) -> TorchSegment:
    """A call: what puts an index in order reads tensors in memory and returns a dense one."""
    call = op_function(value, device)

    def run(*arguments: Argument) -> list[torch.Tensor]:
        return [call(*arguments)]

    return run


def _own(
    values: Sequence[torch.Tensor], layouts: Sequence[Layout], arguments: Sequence[Argument]
) -> list[torch.Tensor]:
    """`values`, each in storage that nothing else uses and with the strides that were planned."""
    taken = {a.untyped_storage().data_ptr() for a in arguments if isinstance(a, torch.Tensor)}
    out = []
    for value, layout in zip(values, layouts, strict=True):
        storage = value.untyped_storage().data_ptr()
        if storage in taken or value.stride() != layout.strides:
            fresh = torch.empty_strided(
                layout.shape, layout.strides, dtype=value.dtype, device=value.device
            )
            value = fresh.copy_(value)
        taken.add(storage)
        out.append(value)
    return out
