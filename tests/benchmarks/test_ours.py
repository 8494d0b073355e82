"""What our executor tells of itself, and the bytes that it moves, which need no GPU to count."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder
import torch

from benchmarks import kernels, ours, rope
from benchmarks.cases import BACKWARD, FORWARD, PASSES, Workload
from benchmarks.numerics import gradients, starts, tensors
from benchmarks.rows import Row
from thunder_fuser import fuser
from thunder_fuser.executor.facts import Facts

CPU = torch.device("cpu")
needs_no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="with a GPU the executor leaves CPU tensors alone"
)


def facts_of(workload: Workload) -> tuple[Facts, dict[str, int | None]]:
    """Of the quick sizes, and the least bytes by pass. Torch runs the segments: that is quicker
    than a compiler."""
    case = workload.case(CPU, workload.quick[0])
    jitted = thunder.jit(case.function, executors=[fuser], fuser_evaluator=True)
    begin = starts(case, tensors(jitted(*case.inputs)))
    gradients(begin, case.wanted, tuple(torch.ones(t.shape, dtype=t.dtype) for t in begin))
    return fuser.facts(jitted), {FORWARD: case.forward_bytes, BACKWARD: case.backward_bytes}


@needs_no_gpu
def test_bytes_moved_stay_what_they_are(golden: Callable[[str, str], None]) -> None:
    """The golden file shows the least bytes of a pass, those of its segments, and their quotient.
    It may pass 1 where something is handed over in fewer bits than the count of the least expects,
    such as a mask, or where an op outside of regions moves the rest."""
    lines = []
    for workload in (*kernels.WORKLOADS, *rope.WORKLOADS):
        facts, least = facts_of(workload)
        for phase, found in zip(PASSES, (facts.forward, facts.backward), strict=True):
            assert found is not None
            wanted = least[phase]
            assert wanted is not None
            share = f"{wanted / found.bytes_moved:5.3f}" if found.bytes_moved else "    -"
            lines.append(
                f"{workload.name:17} {phase:8} {wanted:6} of {found.bytes_moved:6} = {share}  "
                f"segments {found.segments:2}  unclaimed ops {found.unclaimed_ops}\n"
            )
    golden("bytes_moved.txt", "".join(lines))


@needs_no_gpu
def test_every_rotary_embedding_is_one_kernel_that_moves_the_least_bytes() -> None:
    for workload in (*rope.ANCHORS, *rope.WORKLOADS):
        facts, least = facts_of(workload)
        assert facts.forward.bytes_moved == least[FORWARD], workload.name
        assert (facts.forward.segments, facts.forward.unclaimed_ops) == (1, 0), workload.name


@needs_no_gpu
def test_a_row_is_described_and_its_costs_are_told() -> None:
    jitted = thunder.jit(lambda x: torch.sin(x) * 2, executors=[fuser])
    costs = ours.watch(jitted)
    x = torch.randn(3, 5)
    jitted(x)
    first = costs()
    assert first.trace_s is not None
    assert first.trace_s > 0
    assert (first.compiled or 0) + (first.cache_hits or 0) == 1
    again = ours.watch(jitted)
    jitted(x)
    assert (again().trace_s, again().codegen_s, again().compiled) == (0.0, 0.0, 0)
    row = Row("s", "w", "ours", FORWARD, "float32", "", "ok")
    found = ours.described(row, jitted)
    assert (found.n_regions, found.n_segments, found.n_kernels) == (1, 1, 1)
    assert (found.io_bytes_moved, found.bytes_at_cuts, found.n_unclaimed_ops) == (120, 0, 0)
    assert ours.described(Row("s", "w", "ours", BACKWARD, "", "", "ok"), jitted).n_regions is None
