"""Who is measured. An executor is a row: a name, and how to get its compile function."""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from benchmarks import ours
from benchmarks.cases import Case, Function
from benchmarks.costs import Watch, inductor, unknown
from benchmarks.rows import Row

Keywords: TypeAlias = Mapping[str, object]
Compile: TypeAlias = Callable[[Case, Keywords], Function]


class Absent(Exception):
    """The executor does not exist on this machine, or for this workload; the message says why."""


def _none(is_dynamic: bool) -> Keywords:
    return {}


def _as_it_is(row: Row, function: Function) -> Row:
    return row


@dataclass(frozen=True)
class Executor:
    """`load` imports what the executor needs, or raises Absent or ImportError. `keywords` are those
    of its compile function, for a workload of one shape or of several. One that writes into its
    inputs gets copies. `watch` tells what a first call was spent on, `describe` enters into a row
    what the function is made of."""

    name: str
    load: Callable[[torch.device], Compile]
    keywords: Callable[[bool], Keywords] = _none
    writes_inputs: bool = False
    watch: Watch = unknown
    describe: Callable[[Row, Function], Row] = _as_it_is

    def options(self, is_dynamic: bool) -> str:
        """The keywords as a row tells them."""
        return " ".join(f"{name}={value}" for name, value in self.keywords(is_dynamic).items())


def forget_compilations() -> None:
    """Else the recompile limit of an earlier workload's code object counts for the next one's, and
    its tensors live until their cycles are found."""
    torch._dynamo.reset()
    gc.collect()
    if torch.cuda.is_initialized():
        torch.cuda.empty_cache()


def _eager(device: torch.device) -> Compile:
    return lambda case, keywords: case.function


def _inductor(device: torch.device) -> Compile:
    return lambda case, keywords: torch.compile(case.function, **keywords)


def _one_shape(is_dynamic: bool) -> Keywords:
    return {"dynamic": None if is_dynamic else False}


def _inductor_tuned(device: torch.device) -> Compile:
    if device.type != "cuda":
        raise Absent("max-autotune tunes GPU kernels")
    return _inductor(device)


def _tuned(is_dynamic: bool) -> Keywords:
    return {**_one_shape(is_dynamic), "mode": "max-autotune-no-cudagraphs"}


def _torchcompile_cat(device: torch.device) -> Compile:
    from thunder.executors.torch_compile import torch_compile_cat_ex

    return _thunder(torch_compile_cat_ex)


def _nvfuser(device: torch.device) -> Compile:
    from thunder.executors.nvfuserex import nvfuserex

    if nvfuserex is None:
        raise Absent("nvFuser is not installed")
    if device.type != "cuda":
        raise Absent("nvFuser needs a GPU")
    return _thunder(nvfuserex)


def _no_bookends(is_dynamic: bool) -> Keywords:
    """Bookending leaves shape ops at the ends of regions to eager torch: the peer's slower mode."""
    return {"nv_enable_bookend": False}


def _liger(device: torch.device) -> Compile:
    if device.type != "cuda":
        raise Absent("Liger's kernels need a GPU")

    def compiled(case: Case, keywords: Keywords) -> Function:
        if isinstance(case.liger, str):
            raise Absent(case.liger)
        return case.liger()

    return compiled


def _ours(device: torch.device) -> Compile:
    from thunder_fuser import fuser

    return _thunder(fuser, picks_attention=True)


def _thunder(executor: Any, picks_attention: bool = False) -> Compile:
    """Attention of whole models goes to torch's kernels, whoever takes the rest: to those that an
    executor picks, if it does, else to Thunder's choice."""
    import thunder
    from thunder.executors.sdpaex import sdpa_ex

    def compiled(case: Case, keywords: Keywords) -> Function:
        both = [executor, sdpa_ex] if picks_attention else [sdpa_ex, executor]
        executors = both if isinstance(case.function, torch.nn.Module) else [executor]
        function: Function = thunder.jit(case.function, executors=executors, **keywords)
        return function

    return compiled


EXECUTORS: Sequence[Executor] = (
    Executor("eager", _eager),
    Executor("inductor", _inductor, _one_shape, watch=inductor),
    Executor("inductor_tuned", _inductor_tuned, _tuned, watch=inductor),
    Executor("torchcompile_cat", _torchcompile_cat, watch=inductor),
    Executor("nvfuser", _nvfuser, _no_bookends),
    Executor("liger", _liger, writes_inputs=True),
    Executor("ours", _ours, watch=ours.watch, describe=ours.described),
)
