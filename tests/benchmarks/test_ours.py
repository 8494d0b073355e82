"""What our executor tells of itself, and the bytes that it moves, which need no GPU to count."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
import thunder
import torch

from benchmarks import kernels, ours, rope
from benchmarks.cases import BACKWARD, FORWARD, PASSES
from benchmarks.numerics import gradients, starts, tensors
from benchmarks.rows import Row
from thunder_fuser import fuser
from thunder_fuser.executor.facts import Facts

CPU = torch.device("cpu")
needs_no_gpu = pytest.mark.skipif(
    torch.cuda.is_available(), reason="with a GPU the executor leaves CPU tensors alone"
)


# Of the rotary embeddings one for each layout, with and without groups: the others are alike.
ROPE = ("hf_llama2_7b", "hf_llama3_8b", "hf_phi3_mini", "litgpt_gemma2_9b", "litgpt_phi35_mini")
WORKLOADS = {
    w.name: w
    for w in (*kernels.WORKLOADS, *rope.WORKLOADS)
    if w.name in ROPE or w not in rope.WORKLOADS
}


@cache
def facts_of(name: str) -> tuple[Facts, dict[str, int | None]]:
    """Of the quick sizes, and the least bytes by pass. Torch runs the segments: that is quicker
    than a compiler."""
    workload = WORKLOADS[name]
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
    for name in WORKLOADS:
        facts, least = facts_of(name)
        for phase, found in zip(PASSES, (facts.forward, facts.backward), strict=True):
            assert found is not None
            wanted = least[phase]
            assert wanted is not None
            share = f"{wanted / found.bytes_moved:5.3f}" if found.bytes_moved else "    -"
            lines.append(
                f"{name:17} {phase:8} {wanted:6} of {found.bytes_moved:6} = {share}  "
                f"segments {found.segments:2}  unclaimed ops {found.unclaimed_ops}\n"
            )
    golden("bytes_moved.txt", "".join(lines))


@needs_no_gpu
def test_every_rotary_embedding_is_one_kernel_that_moves_the_least_bytes() -> None:
    for name in (*(workload.name for workload in rope.ANCHORS), *ROPE):
        facts, least = facts_of(name)
        assert facts.backward is not None
        for phase, found in zip(PASSES, (facts.forward, facts.backward), strict=True):
            assert found.bytes_moved == least[phase], (name, phase)
            assert (found.segments, found.unclaimed_ops) == (1, 0), (name, phase)


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
