"""What a first call was spent on, as far as an executor tells."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from torch._dynamo.utils import counters

from benchmarks.cases import Function


@dataclass(frozen=True)
class Costs:
    """Seconds of tracing, of fusing traces, of generating code, of compiling it or loading it from
    disk, of timing kernels; what was compiled (kernels of ours, graphs of Inductor) and what was on
    disk. None is what nobody tells."""

    trace_s: float | None = None
    fuse_s: float | None = None
    codegen_s: float | None = None
    nvrtc_s: float | None = None
    tune_s: float | None = None
    compiled: int | None = None
    cache_hits: int | None = None


Watch: TypeAlias = Callable[[Function], Callable[[], Costs]]  # the costs since the watch began


def unknown(function: Function) -> Callable[[], Costs]:
    """The watch of an executor that tells nothing."""
    return Costs


def inductor(function: Function) -> Callable[[], Costs]:
    """Graphs, by the counters of Inductor's cache on disk."""
    before = _graphs()

    def since() -> Costs:
        compiled, hits = (now - then for now, then in zip(_graphs(), before, strict=True))
        return Costs(compiled=compiled, cache_hits=hits)

    return since


def _graphs() -> tuple[int, int]:
    found = counters["inductor"]
    compiled = found["fxgraph_cache_miss"] + found["fxgraph_cache_bypass"]
    return int(compiled), int(found["fxgraph_cache_hit"])
