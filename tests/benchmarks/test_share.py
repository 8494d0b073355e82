"""Lanes share the jobs of a run: each is one lane's, also after its process died."""

from __future__ import annotations

from pathlib import Path

import torch

from benchmarks.executors import EXECUTORS
from benchmarks.jobs import jobs
from benchmarks.selection import select
from benchmarks.share import Share, expected_seconds
from benchmarks.suites import SUITES

CPU = torch.device("cpu")


def test_a_job_is_the_lane_s_that_took_it_first(tmp_path: Path) -> None:
    Share.make(tmp_path, "id", "call")
    first, second = jobs(select(SUITES, "kernels", "softmax,swiglu", {}), EXECUTORS[:1], CPU, True)
    one, other = (Share.of(tmp_path, lane) for lane in ("0", "1"))
    assert (one.run_id, other.command) == ("id", "call")
    assert one.take(first)
    assert not other.take(first)
    assert other.take(second)
    assert not one.take(second)
    assert Share.of(tmp_path, "0").take(first)


def test_what_lasts_longest_is_expected_to() -> None:
    suites = select(
        SUITES, "kernels,models", "softmax,llama3_8b,llama3_8b_block", {"layers": "2,8"}
    )
    planned = jobs(suites, EXECUTORS[:2], CPU, is_quick=False)
    planned.sort(key=expected_seconds, reverse=True)
    order = [(job.workload.name, job.sizes.get("layers")) for job in planned]
    models = [("llama3_8b", 8), ("llama3_8b", 2), ("llama3_8b_block", None)]
    assert order[:3] == models
    assert {name for name, _ in order[3:]} == {"softmax"}
