"""Executors side by side: each compiles a workload and is judged; then all are timed in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks.cases import BACKWARD, FORWARD, INFERENCE, STEP, Case, Function, Tensors
from benchmarks.costs import Costs
from benchmarks.executors import Absent, Executor, forget_compilations
from benchmarks.gpu_state import summary
from benchmarks.jobs import Job, failed, skipped
from benchmarks.measure import MICROSECONDS, Prepare, Timing, time_together
from benchmarks.memory import peak_mib, saved_mib
from benchmarks.numerics import Reference, Results, gradients, reference, starts, tensors
from benchmarks.rows import Row

OF_MODELS = (STEP, INFERENCE)  # phases for which tokens are counted


def measure(job: Job) -> Iterator[Row]:
    """The rows of a job: first what fails or is absent, then phase by phase what was timed."""
    entries: list[Entry] = []
    for found in entered(job):
        if isinstance(found, Entry):
            entries.append(found)
        else:
            yield found
    for phase in job.workload.phases:
        yield from _timed([entry for entry in entries if entry.row.phase == phase], job)


@dataclass(frozen=True)
class Entry:
    """A phase of an executor that has run and was judged, ready to be timed."""

    row: Row
    prepare: Prepare


def entered(job: Job) -> Iterator[Row | Entry]:
    """Each phase of each executor: an entry of what runs, a row of what fails or is absent."""
    try:
        forget_compilations()
        case = job.workload.case(job.device, job.sizes)
        expected = reference(case, job.workload.phases)
    except (Absent, ImportError) as reason:
        yield from (skipped(row, reason) for row in job.rows)
        return
    except Exception as failure:
        yield from (failed(row, failure) for row in job.rows)
        return
    for executor, rows in job.missing:
        job.notice(executor.name)
        yield from _entered(executor, rows, case, expected, job.device)
        if job.device.type == "cuda":
            torch.cuda.empty_cache()
    job.notice("")


def _entered(
    executor: Executor,
    rows: Sequence[Row],
    case: Case,
    expected: Reference,
    device: torch.device,
) -> Iterator[Row | Entry]:
    try:
        function = executor.load(device)(case, executor.keywords(False))
    except (Absent, ImportError) as reason:
        yield from (skipped(row, reason) for row in rows)
        return
    except Exception as failure:
        yield from (failed(row, failure) for row in rows)
        return
    runner = Runner.of(function, case, expected.cotangents, executor.writes_inputs)
    for row in rows:
        try:
            costs = executor.watch(function)
            judged = with_costs(_judged(row, runner, expected, device), costs())
            yield Entry(executor.describe(judged, function), runner.prepare(row.phase))
        except Exception as failure:
            yield failed(row, failure)


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


def _judged(row: Row, runner: Runner, expected: Reference, device: torch.device) -> Row:
    """With the seconds of a first call and how far its results are from those wanted."""
    clock = Stopwatch(device)
    inputs, phase = runner.fresh(), row.phase
    saved: float | None = None
    with torch.set_grad_enabled(phase != INFERENCE), clock:
        outputs = tensors(runner.function(*inputs))
    found = Results(outputs)
    if phase != INFERENCE:
        saved = saved_mib(outputs, (*inputs, *runner.wanted))
    if phase in (BACKWARD, STEP):
        if phase == BACKWARD:
            clock.reset()
        with clock:
            begin = starts(runner.case, outputs)
            found = Results(outputs, begin, gradients(begin, runner.wanted, runner.cotangents))
    return replace(
        row,
        io_bytes_min=_least_bytes(runner.case, phase),
        saved_for_backward_mib=None if phase == BACKWARD else saved,
        first_call_s=clock.seconds,
        err_vs_fp64=expected.error(found, phase),
        err_eager_vs_fp64=expected.eager[phase],
    )


def with_costs(row: Row, costs: Costs) -> Row:
    """The row with what its first call was spent on."""
    return replace(
        row,
        trace_s=costs.trace_s,
        fuse_s=costs.fuse_s,
        codegen_s=costs.codegen_s,
        nvrtc_s=costs.nvrtc_s,
        n_compiled=costs.compiled,
        n_cache_hit=costs.cache_hits,
    )


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


def _least_bytes(case: Case, phase: str) -> int | None:
    match phase:
        case "forward" | "inference":
            return case.forward_bytes
        case "backward":
            return case.backward_bytes
    return None


def _timed(entries: Sequence[Entry], job: Job) -> Iterator[Row]:
    sound: list[Entry] = []
    for entry in entries:
        try:
            peak = peak_mib(entry.prepare, job.device)
        except Exception as failure:
            yield failed(entry.row, failure)
            continue
        sound.append(replace(entry, row=replace(entry.row, peak_alloc_mib=peak)))
    timings = time_together([entry.prepare for entry in sound], job.device, job.monitor)
    for entry, timing in zip(sound, timings, strict=True):
        if isinstance(timing, Exception):
            yield failed(entry.row, timing)
        else:
            yield with_tokens(with_timing(entry.row, timing, job.suite.by_wall), job)


def with_timing(row: Row, timing: Timing, by_wall: bool) -> Row:
    """The row with its times and with the state of the GPU at that time. Trials are of the clock
    that the row is judged by: with `by_wall` the whole call, else its kernels where there are
    any."""
    kernel, host, wall = timing.kernel, timing.host, timing.wall
    state = summary(timing.states)
    return replace(
        row,
        kernel_us_p20=kernel.p20,
        kernel_us_p50=kernel.p50,
        kernel_us_p80=kernel.p80,
        host_us_p20=host.p20,
        host_us_p50=host.p50,
        host_us_p80=host.p80,
        wall_us_p20=wall.p20,
        wall_us_p50=wall.p50,
        wall_us_p80=wall.p80,
        trial_us=timing.wall_trials if by_wall else timing.kernel_trials or timing.wall_trials,
        n_samples=timing.samples,
        n_kernels=row.n_kernels if timing.kernels is None else timing.kernels,
        sm_clock_mhz=state.sm_clock_mhz,
        mem_clock_mhz=state.mem_clock_mhz,
        power_w=state.power_w,
        temp_c=state.temp_c,
        throttled=state.throttled,
    )


def with_tokens(row: Row, job: Job) -> Row:
    """The row of a model with its tokens per second of wall time."""
    if row.phase not in OF_MODELS or "length" not in job.sizes or not row.wall_us_p50:
        return row
    tokens = job.sizes.get("batch", 1) * job.sizes["length"]
    return replace(row, tokens_per_s=tokens / row.wall_us_p50 * MICROSECONDS)
