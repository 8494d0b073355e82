"""The loop over workloads and executors. A row that fails says why and the next one runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

import torch

from benchmarks.executors import Absent, Executor
from benchmarks.measure import Prepare, peak_mib, time_pass
from benchmarks.numerics import Reference, error, gradients, reference, tensors
from benchmarks.rows import Key, Row
from benchmarks.workloads import Case, Function, Workload

Tensors: TypeAlias = tuple[torch.Tensor, ...]

FORWARD, BACKWARD = "forward", "backward"
PHASES = (FORWARD, BACKWARD)
SUITE = "kernels"
MESSAGE_LIMIT = 500  # characters of an error that a row keeps


def rows(
    workloads: Sequence[Workload],
    executors: Sequence[Executor],
    device: torch.device,
    is_quick: bool,
    done: Collection[Key] = (),
) -> Iterator[Row]:
    """Measure, a row at a time, what is not in `done`."""
    for workload in workloads:
        blanks = [
            (
                executor,
                [row for row in _blanks(workload, executor, is_quick) if row.key not in done],
            )
            for executor in executors
        ]
        if any(missing for _, missing in blanks):
            yield from _workload(workload, blanks, device, is_quick)


def _blanks(workload: Workload, executor: Executor, is_quick: bool) -> list[Row]:
    """A row per pass in which only the identity is known."""
    sizes = " ".join(f"{name}={size}" for name, size in workload.chosen(is_quick).items())
    dtype = str(workload.dtype).removeprefix("torch.")
    return [Row(SUITE, workload.name, executor.name, phase, dtype, sizes, "ok") for phase in PHASES]


def _workload(
    workload: Workload,
    blanks: Sequence[tuple[Executor, list[Row]]],
    device: torch.device,
    is_quick: bool,
) -> Iterator[Row]:
    try:
        case = workload.case(device, is_quick)
        expected = reference(case)
    except Exception as failure:
        for _, missing in blanks:
            yield from (_failed(row, failure) for row in missing)
        return
    for executor, missing in blanks:
        if missing:
            yield from _executor(executor, missing, case, expected, device)
        if device.type == "cuda":
            torch.cuda.empty_cache()


def _executor(
    executor: Executor,
    missing: Sequence[Row],
    case: Case,
    expected: Reference,
    device: torch.device,
) -> Iterator[Row]:
    try:
        function = executor.load(device)(case.function)
    except (Absent, ImportError) as reason:
        for row in missing:
            yield replace(row, status="skipped", error_msg=str(reason))
        return
    except Exception as failure:
        yield from (_failed(row, failure) for row in missing)
        return
    for row in missing:
        try:
            measured = _forward if row.phase == FORWARD else _backward
            yield measured(row, function, case, expected, device)
        except Exception as failure:
            yield _failed(row, failure)


def _forward(
    row: Row, function: Function, case: Case, expected: Reference, device: torch.device
) -> Row:
    def call() -> Tensors:
        return tensors(function(*case.inputs))

    row = replace(row, io_bytes_min=case.forward_bytes, err_eager_vs_fp64=expected.forward_error)
    row = _judged(row, call, expected.results.outputs, device)
    return _clocked(row, lambda: lambda: function(*case.inputs), device)


def _backward(
    row: Row, function: Function, case: Case, expected: Reference, device: torch.device
) -> Row:
    """The forward of each call is run untimed: buffers it saved are the backward's to reuse."""

    def prepare() -> Callable[[], Tensors]:
        outputs = tensors(function(*case.inputs))
        return lambda: gradients(outputs, case.inputs, expected.cotangents)

    row = replace(row, io_bytes_min=case.backward_bytes, err_eager_vs_fp64=expected.backward_error)
    row = _judged(row, prepare(), expected.results.gradients, device)
    return _clocked(row, prepare, device)


def _judged(row: Row, call: Callable[[], Tensors], wanted: Tensors, device: torch.device) -> Row:
    """With the seconds of a first call and how far its results are from those wanted."""
    start = time.perf_counter()
    found = call()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    seconds = time.perf_counter() - start
    return replace(row, first_call_s=seconds, err_vs_fp64=error(found, wanted))


def _clocked(row: Row, prepare: Prepare, device: torch.device) -> Row:
    memory = peak_mib(prepare, device)
    timing = time_pass(prepare, device)
    kernel, host, wall = timing.kernel, timing.host, timing.wall
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
        trial_us=timing.trials,
        n_samples=timing.samples,
        n_kernels=timing.kernels,
        peak_alloc_mib=memory,
    )


def _failed(row: Row, failure: Exception) -> Row:
    status = "oom" if isinstance(failure, torch.OutOfMemoryError) else "error"
    message = " ".join(str(failure).split())[:MESSAGE_LIMIT]
    return replace(row, status=status, error_type=type(failure).__name__, error_msg=message)
