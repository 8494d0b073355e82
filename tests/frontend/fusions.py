"""What the frontend's tests share: programs that are torch, and the four ways to run a fusion."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tests.devices import CPU, here
from thunder_fuser.frontend import DataType, FusionCache, FusionDefinition
from thunder_fuser.frontend.segmented_run import Segmented
from thunder_fuser.frontend.segments import segment_definitions
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.program import Program
from thunder_fuser.runtime.evaluate import evaluate
from thunder_fuser.runtime.profile import Profile

Define = Callable[[FusionDefinition], Any]


@dataclass
class TorchPlan:
    """Stands for a launch plan."""

    sources: tuple[str, ...] = ("__global__ void k() {}",)
    launches: int = 1

    def __str__(self) -> str:
        return "the plan"


class TorchProgram:
    """Runs a fusion by its rows' torch expressions, and counts how many were made."""

    made = 0
    plans: tuple[TorchPlan, ...] = ()

    def __init__(self, fusion: Fusion) -> None:
        TorchProgram.made += 1
        self.fusion = fusion

    recompiles: tuple[str, ...] = ()

    def run(
        self, arguments: Sequence[Any], options: Any, device: Any, origin: Any = None
    ) -> list[torch.Tensor]:
        self.plans = (TorchPlan(),)
        return evaluate(self.fusion, arguments)

    def profile(
        self, arguments: Sequence[Any], options: Any, device: Any, origin: Any = None
    ) -> tuple[list[torch.Tensor], Profile]:
        return self.run(arguments, options, device), Profile("fusion", (), 1, 0.5)

    def plan(
        self, arguments: Sequence[Any], options: Any, device: Any, origin: Any = None
    ) -> TorchPlan:
        return TorchPlan()


def new_cache(max_fusions: int = 64) -> FusionCache:
    """A cache of programs that are torch on the CPU, and kernels in tests that run on a GPU."""
    return FusionCache(TorchProgram if here().type == "cpu" else Program, max_fusions)


def defined(define: Define, cache: FusionCache | None = None) -> FusionDefinition:
    """A complete definition made by `define(fd)`."""
    with FusionDefinition(cache=cache if cache is not None else new_cache()) as fd:
        define(fd)
    return fd


def redefined(text: str, cache: FusionCache) -> FusionDefinition:
    """What the printed text of a definition defines."""
    namespace: dict[str, Any] = {"FusionDefinition": FusionDefinition, "DataType": DataType}
    exec(text, namespace)
    (function,) = (f for name, f in namespace.items() if name.startswith("fuser_fusion"))
    return defined(function, cache)


def example(fd: FusionDefinition, *tensors: torch.Tensor) -> list[Any]:
    """Tensor inputs with the layouts of these."""
    return [fd.define_tensor(sizes=t.shape, strides=t.stride(), dtype=t.dtype) for t in tensors]


def copies(inputs: Sequence[Any], device: torch.device | None = None) -> list[Any]:
    """The same inputs in other storage, on the test's device by default, with the same strides."""
    return [_copy(value, device or here()) for value in inputs]


def _copy(value: Any, device: torch.device) -> Any:
    if isinstance(value, list | tuple):
        return [_copy(v, device) for v in value]
    if not isinstance(value, torch.Tensor):
        return value
    size = 1 + sum((n - 1) * s for n, s in zip(value.shape, value.stride(), strict=True))
    storage = value.as_strided((max(size, 0) if value.numel() else 0,), (1,))
    storage = storage.to(device, copy=True)
    return storage.as_strided(value.shape, value.stride())


def finest(fd: FusionDefinition) -> Segmented:
    """Every computed tensor in a segment of its own."""
    tensors = [tv for tv in fd.leaf.fusion.tensors if tv.definition is not None]
    groups = [[tv] for tv in tensors]
    return Segmented(fd.leaf, segment_definitions(fd.leaf, groups, fd._cache))


def check(
    define: Define, inputs: Sequence[Any], eager: Callable[..., Any], exact: bool = True
) -> None:
    """Execute; print, exec and execute; save, load and execute; cut everywhere and execute: on the
    test's device, with the results of eager on the CPU."""
    cache = new_cache()
    fd = defined(define, cache)
    assert cache.num_fusions() == 1
    runs: list[Callable[[Sequence[Any]], list[torch.Tensor]]] = [fd.execute]
    runs.append(redefined(str(fd), cache).execute)
    assert cache.num_fusions() == 1, "the printed text defines another fusion"
    assert defined(define, cache).leaf is fd.leaf
    segmented = finest(fd)
    if len(segmented):
        runs.append(segmented.execute)
    fd.execute(copies(inputs))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fusions"
        cache.serialize(path)
        loaded = new_cache()
        loaded.deserialize(path)
        count = loaded.num_fusions()
        runs.append(defined(define, loaded).execute)
        assert loaded.num_fusions() == count, "the loaded definition is not hit"
    for run in runs:
        given, expected_inputs = copies(inputs), copies(inputs, CPU)
        results, expected = run(given), eager(*expected_inputs)
        assert len(results) == len(expected)
        for got, want in zip(results, expected, strict=True):
            assert got.dtype == want.dtype
            if exact:
                assert torch.equal(got.cpu().nan_to_num(), want.nan_to_num())
            else:
                torch.testing.assert_close(got.cpu(), want)
        for got, want in zip(given, expected_inputs, strict=True):
            if isinstance(got, torch.Tensor):
                torch.testing.assert_close(got.cpu(), want)
