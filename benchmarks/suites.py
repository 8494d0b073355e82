"""The suites, in the order in which they are measured."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks import compiling, contest, kernels, latency, models, rope, sweep
from benchmarks.jobs import Suite

SUITES: Sequence[Suite] = (
    Suite("kernels", "memory-bound patterns", kernels.WORKLOADS, contest.measure),
    Suite("rope", "rotary embeddings over lengths", rope.WORKLOADS, contest.measure, row_seconds=2),
    Suite("sweep", "sizes and dtypes nobody listed", sweep.WORKLOADS, contest.measure),
    Suite(
        "models",
        "LitGPT's blocks and models",
        models.WORKLOADS,
        contest.measure,
        by_wall=True,
        row_seconds=4,
    ),
    Suite("host", "what a call costs the host", latency.WORKLOADS, latency.measure),
    Suite(
        "compile",
        "first calls, cold and warm",
        compiling.WORKLOADS,
        compiling.measure,
        row_seconds=20,
    ),
)
