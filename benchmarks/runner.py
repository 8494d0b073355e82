"""Call a compiled function: the phases of a workload, and the clock of a first call."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from benchmarks.cases import BACKWARD, FORWARD, INFERENCE, STEP, Case, Function, Tensors
from benchmarks.measure import Prepare
from benchmarks.numerics import gradients, starts, tensors


@dataclass(frozen=True)
class Runner:
    """A compiled function and what it is called with. `fresh` gives the inputs of a call."""

    function: Function
    case: Case
    cotangents: Tensors
    wanted: Tensors
    fresh: Callable[[], Tensors]

    @staticmethod
    def of(function: Function, case: Case, cotangents: Tensors, writes_inputs: bool) -> Runner:
        """With inputs of its own, filled anew before each call, for one that writes into them."""
        if not writes_inputs:
            return Runner(function, case, cotangents, case.wanted, lambda: case.inputs)
        own = tuple(t.detach().clone().requires_grad_(t.requires_grad) for t in case.inputs)

        def fresh() -> Tensors:
            with torch.no_grad():
                for mine, theirs in zip(own, case.inputs, strict=True):
                    mine.copy_(theirs)
            return own

        return Runner(function, case, cotangents, replace(case, inputs=own).wanted, fresh)

    def prepare(self, phase: str) -> Prepare:
        """A phase's calls. The forward before a backward is run untimed: the buffers it saved are
        the backward's to reuse."""

        def ready() -> Callable[[], object]:
            inputs = self.fresh()
            if phase == BACKWARD:
                begin = starts(self.case, tensors(self.function(*inputs)))
                return lambda: gradients(begin, self.wanted, self.cotangents)
            return {FORWARD: self.forward, INFERENCE: self.inference, STEP: self.step}[phase](
                inputs
            )

        return ready

    def forward(self, inputs: Tensors) -> Callable[[], object]:
        return lambda: self.function(*inputs)

    def inference(self, inputs: Tensors) -> Callable[[], object]:
        def call() -> object:
            with torch.no_grad():
                return self.function(*inputs)

        return call

    def step(self, inputs: Tensors) -> Callable[[], object]:
        def call() -> object:
            begin = starts(self.case, tensors(self.function(*inputs)))
            return begin, gradients(begin, self.wanted, self.cotangents)

        return call


class Stopwatch:
    """Seconds spent in `with` blocks, until the device is done."""

    def __init__(self, device: torch.device) -> None:
        self.seconds = 0.0
        self._device = device

    def reset(self) -> None:
        self.seconds = 0.0

    def __enter__(self) -> Stopwatch:
        self._start = time.perf_counter()
        return self

    def __exit__(self, *_: object) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)
        self.seconds += time.perf_counter() - self._start
