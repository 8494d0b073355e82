"""`python -m benchmarks.first_call WANTED RESULT`: one executor's first call, in this process.

WANTED is what `benchmarks.compiling` asks for, as JSON; what was found is written to RESULT.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch

from benchmarks import process
from benchmarks.cases import BACKWARD, FORWARD, STEP, Case, Function, Workload
from benchmarks.costs import Costs
from benchmarks.executors import EXECUTORS, Absent, Executor
from benchmarks.numerics import Reference, Results, gradients, reference, starts, tensors
from benchmarks.runner import Stopwatch


def main(argv: Sequence[str]) -> None:
    """Write the result. Raises what the executor raises."""
    process.die_with_parent()
    wanted, result = json.loads(argv[0]), Path(argv[1])
    device = torch.device(wanted["device"])
    executor = next(e for e in EXECUTORS if e.name == wanted["executor"])
    workload = _workload(wanted["suite"], wanted["workload"])
    case = workload.case(device, wanted["sizes"])
    case = replace(case, calls=case.calls or (case.inputs,))
    try:
        function = executor.load(device)(case, executor.keywords(workload.is_dynamic))
    except (Absent, ImportError) as reason:
        found: Mapping[str, Any] = {"absent": str(reason)}
    else:
        # Starts the device, its libraries and the compiler, which is no compilation of this case.
        _warm_up(executor, device)
        expected = reference(replace(case, inputs=case.calls[-1]), workload.phases)
        found = first_call(function, executor, case, expected, device, workload.phases)
    result.write_text(json.dumps(found))


def _warm_up(executor: Executor, device: torch.device) -> None:
    """Compile something else: compilers import half of themselves when they are first used."""
    x = torch.ones(8, device=device)
    with suppress(Absent):  # Liger has ops, no compiler
        executor.load(device)(Case(torch.cos, (x,)), executor.keywords(False))(x)


def _workload(suite: str, name: str) -> Workload:
    from benchmarks.suites import SUITES  # which hold the module that starts this one

    workloads = next(found.workloads for found in SUITES if found.name == suite)
    return next(workload for workload in workloads if workload.name == name)


def first_call(
    function: Function,
    executor: Executor,
    case: Case,
    expected: Reference,
    device: torch.device,
    phases: Sequence[str],
) -> dict[str, Any]:
    """Seconds, costs and errors by phase; a step is the forwards and backwards of all calls."""
    seconds = {FORWARD: 0.0, BACKWARD: 0.0}
    costs: dict[str, Costs] = {}
    watched = executor.watch(function)
    for inputs in case.calls:
        called = replace(case, inputs=inputs)
        watched_forward = executor.watch(function)
        with Stopwatch(device) as forward:
            outputs = tensors(function(*inputs))
        costs[FORWARD] = watched_forward()
        begin = starts(called, outputs)
        watched_backward = executor.watch(function)
        cotangents = [torch.ones_like(t, memory_format=torch.contiguous_format) for t in begin]
        if inputs is case.calls[-1]:
            cotangents = list(expected.cotangents)
        with Stopwatch(device) as backward:
            found = gradients(begin, called.wanted, tuple(cotangents))
        costs[BACKWARD] = watched_backward()
        seconds[FORWARD] += forward.seconds
        seconds[BACKWARD] += backward.seconds
    costs[STEP] = watched()
    seconds[STEP] = sum(seconds.values())
    results = Results(outputs, begin, found)
    return {
        phase: {
            "seconds": seconds[phase],
            "costs": asdict(costs[phase]),
            "error": expected.error(results, phase),
            "eager_error": expected.eager[phase],
        }
        for phase in phases
    }


if __name__ == "__main__":
    main(sys.argv[1:])
