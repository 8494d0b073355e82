"""Who is measured. An executor is a row: a name, and how to get its compile function."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch

from benchmarks.workloads import Function

Compile = Callable[[Function], Function]


class Absent(Exception):
    """The executor does not exist on this machine; the message says why."""


@dataclass(frozen=True)
class Executor:
    """`load` imports what the executor needs, or raises Absent."""

    name: str
    load: Callable[[torch.device], Compile]


def _eager(device: torch.device) -> Compile:
    return lambda function: function


def _inductor(device: torch.device) -> Compile:
    torch._dynamo.reset()  # else the recompile limit of an earlier workload's code object counts
    return lambda function: torch.compile(function, dynamic=False)


def _inductor_tuned(device: torch.device) -> Compile:
    if device.type != "cuda":
        raise Absent("max-autotune tunes GPU kernels")
    torch._dynamo.reset()
    mode = "max-autotune-no-cudagraphs"
    return lambda function: torch.compile(function, dynamic=False, mode=mode)


def _torchcompile_cat(device: torch.device) -> Compile:
    import thunder
    from thunder.executors.torch_compile import torch_compile_cat_ex

    torch._dynamo.reset()
    return lambda function: thunder.jit(function, executors=[torch_compile_cat_ex])


def _nvfuser(device: torch.device) -> Compile:
    import thunder
    from thunder.executors.nvfuserex import nvfuserex

    if nvfuserex is None:
        raise Absent("nvFuser is not installed")
    if device.type != "cuda":
        raise Absent("nvFuser needs a GPU")
    # Bookending leaves shape ops at the ends of regions to eager torch: the peer's slower mode.
    return lambda function: thunder.jit(function, executors=[nvfuserex], nv_enable_bookend=False)


def _ours(device: torch.device) -> Compile:
    import thunder

    from thunder_fuser import fuser

    return lambda function: thunder.jit(function, executors=[fuser])


EXECUTORS: Sequence[Executor] = (
    Executor("eager", _eager),
    Executor("inductor", _inductor),
    Executor("inductor_tuned", _inductor_tuned),
    Executor("torchcompile_cat", _torchcompile_cat),
    Executor("nvfuser", _nvfuser),
    Executor("ours", _ours),
)
