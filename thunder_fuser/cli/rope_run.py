"""One run of the demo: everything it reports, gathered."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import thunder
import torch

import thunder_fuser
from thunder_fuser.cli.measure import Times, measure
from thunder_fuser.cli.rope import Sizes, Tensors, arguments, program
from thunder_fuser.cli.text import WrongCall
from thunder_fuser.executor.region import FusedRegion
from thunder_fuser.executor.steps import halves
from thunder_fuser.frontend.cache import FusionCache
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.runtime.targets import target_for

SEED = 2577
TOLERATED = 2.0  # times eager's error; ours rounds less often, so it is usually below 1


@dataclass(frozen=True)
class RegionReport:
    """A region: what it claimed, how it was cut, what is no copy and why, and what it costs."""

    direction: str
    name: str
    symbols: int
    outside: int
    segments: list[str]
    kernels: int
    kernel_lines: list[int]
    aliases: list[str]
    times: Times


@dataclass(frozen=True)
class TensorError:
    """The largest absolute difference from fp64."""

    tensor: str
    ours: float
    eager: float


@dataclass(frozen=True)
class DemoReport:
    program: str
    target: str
    regions: list[RegionReport]
    saved: str
    errors: list[TensorError]
    first_call: str
    second_call: str
    compiled_anew: str
    stages: str
    cuda_files: list[str]

    @property
    def is_accurate(self) -> bool:
        return all(e.ours <= TOLERATED * e.eager for e in self.errors)


def run_rope(sizes: Sizes, device: torch.device, directory: Path) -> DemoReport:
    """Run the program forward and backward and look at what happened.

    Every stage is dumped into `directory`. Raises WrongCall for sizes that make no attention.
    """
    _check(sizes)
    torch.manual_seed(SEED)
    given = arguments(sizes, torch.bfloat16, device)
    rope = program(sizes)
    cotangents = tuple(torch.randn_like(t) for t in rope(*given))
    chosen = {"executors": [thunder_fuser.fuser], "fuser_dump": str(directory)}
    jfn = thunder.jit(rope, **chosen)
    first, results = _counted(jfn, given, cotangents)
    second, _ = _counted(jfn, given, cotangents)
    anew, _ = _counted(thunder.jit(rope, **chosen), given, cotangents)
    return DemoReport(
        program=f"RoPE of NVIDIA/Fuser#2577, bf16, {sizes}",
        target=f"{target_for(device)} on {_device_name(device)}",
        regions=_regions(jfn),
        saved=_saved(jfn),
        errors=_errors(rope, given, cotangents, results),
        first_call=first,
        second_call=second,
        compiled_anew=anew,
        stages=str(directory.resolve()),
        cuda_files=[str(path) for path in sorted(directory.resolve().glob("*_TF*/*.cu"))],
    )


def _check(sizes: Sizes) -> None:
    if small := [f"{name}={size}" for name, size in asdict(sizes).items() if size < 1]:
        raise WrongCall(f"{', '.join(small)}: a size is at least 1")
    if sizes.heads % sizes.groups:
        raise WrongCall(f"{sizes.heads} heads do not divide into {sizes.groups} groups")
    if sizes.rotated % 2 or not 0 < sizes.rotated <= sizes.head_size:
        raise WrongCall(
            f"{sizes.rotated} rotated elements: an even number up to the head size "
            f"{sizes.head_size} is needed"
        )


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "the CPU"


def _forward_backward(
    fn: Callable[..., Tensors], given: Tensors, cotangents: Sequence[torch.Tensor]
) -> tuple[torch.Tensor, ...]:
    """q, k, v and the gradient of x."""
    outputs = fn(*given)
    (gradient,) = torch.autograd.grad(outputs, [given[0]], cotangents)
    return (*outputs, gradient)


def _counted(
    jfn: Callable[..., Tensors], given: Tensors, cotangents: Sequence[torch.Tensor]
) -> tuple[str, tuple[torch.Tensor, ...]]:
    """What a run cost in cache lookups and compilations, and its results."""
    trie, kernels = FusionCache.get().stats(), KERNELS.statistics()
    start = time.perf_counter()
    results = _forward_backward(jfn, given, cotangents)
    if given[0].is_cuda:
        torch.cuda.synchronize(given[0].device)
    seconds = time.perf_counter() - start
    trie_now, now = FusionCache.get().stats(), KERNELS.statistics()
    hits, lookups = trie_now.hits - trie.hits, trie_now.lookups - trie.lookups
    text = (
        f"{seconds * 1e3:.1f} ms, thunder hits {thunder.cache_hits(jfn)}, trie hits {hits} of "
        f"{lookups} lookups, kernels compiled {now.compiled - kernels.compiled}, from disk "
        f"{now.disk_hits - kernels.disk_hits}, from memory {now.memory_hits - kernels.memory_hits}"
    )
    return text, results


def _regions(jfn: Callable[..., Any]) -> list[RegionReport]:
    found = []
    for half in halves(jfn):
        regions = [step.region for step in half.steps if step.region is not None]
        outside = len(half.steps) - len(regions)
        found += [_region(region, half.title, outside) for region in regions]
    return found


def _region(region: FusedRegion, direction: str, outside: int) -> RegionReport:
    (plan,) = (p for fd in region.definitions for p in fd.leaf.program.plans)
    assert isinstance(plan, Plan)
    lines = str(plan.segmented).splitlines()
    views = [line for line in lines if " is a view of " in line]
    return RegionReport(
        direction,
        region.name,
        len(region.bsyms),
        outside,
        [line for line in lines if line not in views],
        plan.launches,
        [source.count("\n") for source in plan.sources],
        [f"alias: {view}" for view in views] or [_no_alias(plan)],
        measure(region),
    )


def _no_alias(plan: Plan) -> str:
    written = sum(len(segment.stores) for segment in plan.segmented.segments)
    return f"aliases: none, because all {written} results are computed or laid out anew"


def _saved(jfn: Callable[..., Any]) -> str:
    """The tensors that the forward keeps for the backward."""
    returned = thunder.last_traces(jfn)[-1].bound_symbols[-1].args[1][0]
    size = sum(p.numel * p.dtype.bytes for p in returned)
    return f"{', '.join(p.name for p in returned)}: {size} bytes"


def _errors(
    rope: Callable[..., Tensors],
    given: Tensors,
    cotangents: Sequence[torch.Tensor],
    ours: Sequence[torch.Tensor],
) -> list[TensorError]:
    x, cos, sin = (t.detach().double() for t in given)
    wide = tuple(t.double() for t in cotangents)
    exact = _forward_backward(rope, (x.requires_grad_(), cos, sin), wide)
    eager = _forward_backward(rope, given, cotangents)
    return [
        TensorError(name, _difference(mine, right), _difference(theirs, right))
        for name, mine, theirs, right in zip(("q", "k", "v", "dx"), ours, eager, exact, strict=True)
    ]


def _difference(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found.detach().double() - exact.detach()).abs().max())
