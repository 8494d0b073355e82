"""How far results are from those of the same function in fp64."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

from benchmarks.workloads import Case


@dataclass(frozen=True)
class Results:
    """Floating tensors: what a function returned, and the gradients of its inputs."""

    outputs: tuple[torch.Tensor, ...]
    gradients: tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Reference:
    """What every executor is judged by: results in fp64 and the cotangents that belong to them,
    and eager's distance from them, forward and backward."""

    results: Results
    cotangents: tuple[torch.Tensor, ...]
    forward_error: float
    backward_error: float


def reference(case: Case) -> Reference:
    """Run a case in fp64 and in eager torch. A `.float()` in the function stays: fp32 is far finer
    than the bf16 that is judged."""
    outputs = tensors(case.function(*case.inputs))
    torch.manual_seed(1)
    cotangents = tuple(torch.randn_like(t) for t in outputs)
    eager = Results(outputs, gradients(outputs, case.inputs, cotangents))
    wide_inputs = tuple(map(_widened, case.inputs))
    wide_outputs = tensors(case.function(*wide_inputs))
    wide_cotangents = [t.double() for t in cotangents]
    wide = Results(wide_outputs, gradients(wide_outputs, wide_inputs, wide_cotangents))
    wide = Results(_detached(wide.outputs), _detached(wide.gradients))
    return Reference(
        wide,
        cotangents,
        error(eager.outputs, wide.outputs),
        error(eager.gradients, wide.gradients),
    )


def tensors(results: Any) -> tuple[torch.Tensor, ...]:
    """The tensors that a function returned, in order."""
    return tuple(t for t in tree_leaves(results) if isinstance(t, torch.Tensor))


def gradients(
    outputs: Sequence[torch.Tensor],
    inputs: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
) -> tuple[torch.Tensor, ...]:
    """Of the inputs that require one, in order. The graph is freed."""
    wanted = [t for t in inputs if t.requires_grad]
    return tuple(torch.autograd.grad(outputs, wanted, cotangents))


def error(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> float:
    """The largest |found - expected| / |expected| of a tensor, norms over all its elements;
    infinite where a number is missing or not finite, or a shape is wrong."""
    if [t.shape for t in found] != [t.shape for t in expected]:
        return math.inf
    worst = 0.0
    for one, other in zip(found, expected, strict=True):
        distance = float(torch.linalg.vector_norm(one.detach().double() - other))
        norm = float(torch.linalg.vector_norm(other))
        relative = distance / norm if norm else distance
        worst = max(worst, relative if math.isfinite(relative) else math.inf)
    return worst


def _widened(tensor: torch.Tensor) -> torch.Tensor:
    if not tensor.is_floating_point():
        return tensor
    return tensor.detach().double().requires_grad_(tensor.requires_grad)


def _detached(found: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return tuple(t.detach() for t in found)
