"""What the processes of one run share that measure on a GPU each: a directory.

In it are what all rows say of the run, the rows that an earlier run has, and a claim for each
workload that a lane took: a link to the lane's name, which exists whole or not at all, and stays
where the lane's process dies, so that the next process of that lane goes on with it.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cases import sizes_text
from benchmarks.jobs import Job

BEFORE = "before.jsonl"
_RUN, _CLAIMS = "run.json", "claims"


@dataclass(frozen=True)
class Share:
    """As a lane sees it: `run_id` and `command` are those of all rows."""

    directory: Path
    lane: str
    run_id: str
    command: str

    @staticmethod
    def make(directory: Path, run_id: str, command: str) -> None:
        """Make the directory ready for lanes."""
        (directory / _CLAIMS).mkdir()
        (directory / _RUN).write_text(json.dumps({"run_id": run_id, "command": command}))

    @staticmethod
    def of(directory: Path, lane: str) -> Share:
        return Share(directory, lane, **json.loads((directory / _RUN).read_text()))

    def take(self, job: Job) -> bool:
        """Whether the job is this lane's: it was already, or nobody had taken it."""
        name = f"{job.suite.name} {job.workload.name} {sizes_text(job.sizes)}"
        claim = self.directory / _CLAIMS / name
        try:
            os.symlink(self.lane, claim)
        except FileExistsError:
            return os.readlink(claim) == self.lane
        return True


def expected_seconds(job: Job) -> float:
    """About how long a job takes on an H200: the longest start first. A model takes as long again
    for each of its layers."""
    return job.suite.row_seconds * len(job.rows) * (1 + job.sizes.get("layers", 0))
