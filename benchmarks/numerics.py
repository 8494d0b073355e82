"""How far results are from those of the same function in fp64."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from benchmarks.cases import BACKWARD, FORWARD, INFERENCE, STEP, Case, Function, Tensors


@dataclass(frozen=True)
class Results:
    """What a function returned, where its backward starts (the outputs that have a gradient, or
    their loss), and the gradients."""

    outputs: Tensors
    starts: Tensors = ()
    gradients: Tensors = ()

    def of(self, phase: str) -> Tensors:
        """What a phase is judged by."""
        return {
            FORWARD: self.outputs,
            INFERENCE: self.outputs,
            BACKWARD: self.gradients,
            STEP: (*self.starts, *self.gradients),
        }[phase]


@dataclass(frozen=True)
class Reference:
    """What every executor is judged by. `eager` are the errors of eager torch by phase; `wide` are
    the results in fp64, None for a function that draws random numbers. Nobody is judged where fp64
    did not fit into memory: errors are None."""

    case: Case
    cotangents: Tensors
    eager: dict[str, float | None]
    wide: Results | None
    fits: bool = True

    def error(self, found: Results, phase: str) -> float | None:
        """Of the results of one call. Raises ValueError for draws that cannot be believed."""
        if not self.fits:
            return None
        wide = self.wide or _widely(self.case, self.cotangents, found.outputs)
        return error(found.of(phase), wide.of(phase))


def reference(case: Case, phases: Sequence[str]) -> Reference:
    """Run a case in fp64 and in eager torch. A `.float()` in the function of a model stays: fp32 is
    far finer than the 16 bits that are judged."""
    outputs = tensors(case.function(*case.inputs))
    torch.manual_seed(1)
    begin = starts(case, outputs)
    make = torch.ones_like if case.loss else torch.randn_like
    # Dense, also for outputs that are views: what arrives from above has a layout of its own.
    cotangents = tuple(make(t, memory_format=torch.contiguous_format) for t in begin)
    eager = Results(outputs, begin, gradients(begin, case.wanted, cotangents))
    try:
        wide = None if case.replay else _widely(case, cotangents)
    except torch.OutOfMemoryError:
        return Reference(case, cotangents, dict.fromkeys(phases), None, fits=False)
    judge = Reference(case, cotangents, {}, wide)
    return Reference(case, cotangents, {p: judge.error(eager, p) for p in phases}, wide)


def tensors(results: Any) -> Tensors:
    """The tensors that a function returned, in order."""
    return tuple(t for t in tree_leaves(results) if isinstance(t, torch.Tensor))


def starts(case: Case, outputs: Tensors) -> Tensors:
    """Where the backward starts."""
    if case.loss is not None:
        return (case.loss(*outputs),)
    return tuple(t for t in outputs if t.requires_grad)


def gradients(begin: Sequence[torch.Tensor], wanted: Tensors, cotangents: Tensors) -> Tensors:
    """Of `wanted`, in order; none where none is. The graph is freed."""
    return tuple(torch.autograd.grad(begin, wanted, cotangents)) if wanted else ()


def error(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest |found - expected| / |expected| of a tensor, norms over all its elements;
    infinite where a number is missing or not finite, or a shape is wrong."""
    if [t.shape for t in found] != [t.shape for t in expected]:
        return math.inf
    worst = 0.0
    for one, other in zip(found, expected, strict=True):
        wide = other.double()
        distance = float(torch.linalg.vector_norm(one.detach().double() - wide))
        norm = float(torch.linalg.vector_norm(wide))
        relative = distance / norm if norm else distance
        worst = max(worst, relative if math.isfinite(relative) else math.inf)
    return worst


def _widely(case: Case, cotangents: Tensors, drawn: Tensors | None = None) -> Results:
    """The results in fp64, with the draws that the outputs `drawn` show. Those of a model are kept
    as fp32, which is fine enough and half of its size."""
    function: Function = case.function
    if drawn is not None and case.replay is not None:
        function = case.replay(drawn)
    if isinstance(function, torch.nn.Module):
        function = copy.deepcopy(function).double()
    wide = Case(function, tuple(map(_widened, case.inputs)), loss=case.loss)
    outputs = tensors(wide.function(*wide.inputs))
    begin = starts(wide, outputs)
    found = gradients(begin, wide.wanted, tuple(t.double() for t in cotangents))
    kept = torch.float32 if isinstance(function, torch.nn.Module) else torch.float64
    return Results(*(tuple(t.detach().to(kept) for t in part) for part in (outputs, begin, found)))


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach().double().requires_grad_(tensor.requires_grad)
