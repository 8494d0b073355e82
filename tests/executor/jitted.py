"""What the executor's tests share: run a program through Thunder and beside it in eager."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import thunder
import torch
from torch.utils._pytree import tree_leaves

from tests.devices import CPU, here
from thunder_fuser import fuser
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.executor.region import FusedRegion
from thunder_fuser.executor.remat_cut import bytes_of

# On the CPU values are those of torch's evaluator of the op rows, which compiles nothing: kernels
# have tests of their own. On a GPU these tests are tests of kernels too.
EVALUATOR = {"fuser_evaluator": True}


@dataclass(frozen=True)
class Regions:
    """The fusions of the last traces, each as the names of its prims."""

    forward: tuple[tuple[str, ...], ...]
    backward: tuple[tuple[str, ...], ...]


def jit(fn: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """`thunder.jit` with our executor alone, on the evaluator where the test's device is a CPU."""
    defaults = EVALUATOR if here().type == "cpu" else {}
    return thunder.jit(fn, executors=[fuser], **{**defaults, **options})


def regions(jfn: Callable[..., Any]) -> Regions:
    """The fusions of the last call."""
    forward = _fusions(thunder.last_traces(jfn))
    return Regions(forward, _fusions(thunder.last_backward_traces(jfn)))


def saved(jfn: Callable[..., Any]) -> dict[str, int]:
    """The bytes of each tensor that the last forward kept for its backward, by name."""
    values = thunder.last_traces(jfn)[-1].bound_symbols[-1].args[1][0]
    return {p.name: bytes_of(p) for p in values}


def region(jfn: Callable[..., Any]) -> FusedRegion:
    """The only region of the last call."""
    (found,) = regions_of(jfn)
    return found


def check(fn: Callable[..., Any], *args: torch.Tensor, **options: Any) -> Callable[..., Any]:
    """Results, gradients and written arguments on the test's device equal those of eager on the
    CPU; returns the jitted function."""
    jfn = jit(fn, **options)
    ours, eager = _copies(args, here()), _copies(args, CPU)
    found, expected = _run(jfn, ours), _run(fn, eager)
    _assert_close(found, expected)
    _assert_close(ours, eager)
    differentiable = [i for i, t in enumerate(expected) if t.requires_grad]
    if differentiable:
        cotangents = [torch.randn_like(expected[i]) for i in differentiable]
        _assert_close(
            _gradients([found[i] for i in differentiable], ours, cotangents),
            _gradients([expected[i] for i in differentiable], eager, cotangents),
        )
    return jfn


def _fusions(traces: Sequence[Any] | None) -> tuple[tuple[str, ...], ...]:
    if not traces:
        return ()
    fusions = (b for b in traces[-1].bound_symbols if b.sym.is_fusion)
    return tuple(tuple(part.sym.name for part in b.subsymbols) for b in fusions)


def _run(fn: Callable[..., Any], args: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    return [t for t in tree_leaves(fn(*args)) if isinstance(t, torch.Tensor)]


def _assert_close(found: Sequence[torch.Tensor], expected: Sequence[torch.Tensor]) -> None:
    assert len(found) == len(expected)
    scales = [_scale(t.detach()) for t in expected]
    torch.testing.assert_close(_scaled(found, scales), _scaled(expected, scales))


def _scale(t: torch.Tensor) -> float:
    """The power of two that takes the median magnitude to within 2, for which torch's absolute
    bounds are made: a sum of large terms that happens to be small is rounded as these are. One
    large value does not widen the bounds of all others."""
    if not t.is_floating_point() or t.itemsize == 1:
        return 1.0
    finite = t[t.isfinite()]
    if not finite.numel():
        return 1.0
    return 2.0 ** max(0, math.frexp(float(finite.double().abs().median()))[1] - 1)


def _scaled(tensors: Sequence[torch.Tensor], scales: Sequence[float]) -> list[torch.Tensor]:
    """On the CPU."""
    moved = (t.detach().cpu() for t in tensors)
    return [t / s if s > 1 else t for t, s in zip(moved, scales, strict=True)]


def _copies(args: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    copied = (a.detach().to(device, copy=True) for a in args)
    return [c.requires_grad_(a.requires_grad) for c, a in zip(copied, args, strict=True)]


def _gradients(
    outputs: Sequence[torch.Tensor],
    args: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor],
) -> list[torch.Tensor]:
    wanted = [a for a in args if a.requires_grad]
    moved = [c.to(o.device) for c, o in zip(cotangents, outputs, strict=True)]
    return list(torch.autograd.grad(outputs, wanted, moved))
