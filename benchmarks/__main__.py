"""`python -m benchmarks`: measure, write rows, stop."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import torch

from benchmarks import gpu_state, rows
from benchmarks.executors import EXECUTORS
from benchmarks.jobs import Job, jobs
from benchmarks.measure import copy_gbps, is_lost
from benchmarks.progress import progress
from benchmarks.resume import Earlier, Running, noting, resume
from benchmarks.run import measured
from benchmarks.selection import executors_for, select, table
from benchmarks.suites import SUITES

_EXAMPLES = """examples:
  python -m benchmarks                                     everything, on the GPU
  python -m benchmarks --quick                             small sizes, which a CPU can run
  python -m benchmarks --suite kernels --work rmsnorm,softmax --exec eager,ours --out rows.jsonl
  python -m benchmarks --suite rope --lengths 4096,8192    some lengths only
  python -m benchmarks --suite models --layers 2,8         LitGPT models of 2 and of 8 layers
  python -m benchmarks --resume                            go on where a run was interrupted
  python -m benchmarks --list                              what there is to measure

Rows of an earlier run at --out move to NAME.previous.jsonl; `python -m reports` reads either.
docs/benchmarks.md says what is measured and how.
exit status 1: a row of ours failed; 2: a wrong call
"""


def main(argv: Sequence[str]) -> int:
    """Returns the exit status: 1 if a row of ours failed, 2 for a wrong call."""
    arguments = _parser().parse_args(argv)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        sizes = {"layers": arguments.layers, "length": arguments.lengths}
        suites = select(SUITES, arguments.suite, arguments.work, sizes)
        executors = executors_for(arguments.exec, EXECUTORS, device)
        if arguments.list:
            print(table(suites, arguments.quick))
            return 0
        if device.type == "cpu" and not arguments.quick:
            raise ValueError("without a GPU only --quick sizes can be run: add --quick")
        earlier = resume(arguments.out, device) if arguments.resume else None
    except ValueError as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    planned = jobs(suites, executors, device, arguments.quick, earlier.done if earlier else ())
    command = shlex.join(["python", "-m", "benchmarks", *argv])
    try:
        status = _run(planned, arguments.out, device, command, earlier)
    except RuntimeError as error:  # no CUPTI, or no memory: then no row could be measured either
        print(f"python -m benchmarks: a device copy cannot be timed: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.out} holds the rows; python -m reports {arguments.out} tells what they say")
    return status


def _run(
    planned: Sequence[Job], out: Path, device: torch.device, command: str, earlier: Earlier | None
) -> int:
    """Measure and write. Raises RuntimeError where the roof cannot be measured."""
    monitor = gpu_state.monitor(device)
    roof, state = copy_gbps(device), monitor()
    where = rows.environment(
        device,
        command,
        (earlier.run_id if earlier else None) or uuid4().hex,
        roof,
        None if state is None else state.clocks_locked,
    )
    if earlier is None:
        rows.start(out)
    is_failed = False
    with progress(sum(len(job.rows) for job in planned)) as shown, noting(out) as note:

        def running(what: Running) -> None:
            note(what)
            shown.running(what)

        for row in measured(planned, running, monitor, earlier.culprit if earlier else None):
            rows.append(out, row, where)
            shown.row(row)
            is_failed |= row.executor == "ours" and row.status in ("error", "oom")
            if row.status == "error" and is_lost(device):
                print("the GPU is lost to this process; --resume goes on after it", file=sys.stderr)
                return 1
    return int(is_failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure workloads under several executors: on the GPU if there is one, else "
        "on the host target, where times tell nothing about a GPU.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    suites = ", ".join(suite.name for suite in SUITES)
    executors = ", ".join(executor.name for executor in EXECUTORS)
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--suite", metavar="NAMES", help=suites)
    parser.add_argument("--work", metavar="NAMES", help="workloads; --list names them")
    parser.add_argument("--exec", metavar="NAMES", help=executors)
    parser.add_argument(
        "--lengths", metavar="NUMBERS", help="sequence lengths, where there are any"
    )
    parser.add_argument("--layers", metavar="NUMBERS", help="layers, where there are any")
    parser.add_argument("--out", type=Path, default=Path("rows.jsonl"), help="default: %(default)s")
    parser.add_argument("--resume", action="store_true", help="keep --out and skip its rows")
    parser.add_argument("--list", action="store_true", help="name workloads and sizes, and stop")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
