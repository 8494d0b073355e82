"""What `python -m benchmarks` does in the process that measures."""

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
from benchmarks.keeper import OUT
from benchmarks.measure import copy_gbps, is_lost
from benchmarks.note import Running, noting
from benchmarks.pace import LOST, OUT_OF_TIME, Pace
from benchmarks.progress import progress
from benchmarks.resume import Earlier, resume
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
  python -m benchmarks --resume --budget 540 --limit 150   for nine minutes, and past what hangs
  python -m benchmarks --list                              what there is to measure

Rows of an earlier run at --out move to NAME.previous.jsonl; `python -m reports` reads either.
docs/benchmarks.md says what is measured and how.
exit status 1: a row of ours failed; 2: a wrong call; 3: the budget was spent before all rows were
measured; 4: the GPU was lost to the process. --resume goes on after the last two.
"""
_UNTOLD = ("--budget", "--limit")  # with their values: they do not change what is measured


def main(argv: Sequence[str], begun: float | None = None) -> int:
    """Measure for a process that began at `begun` of the monotonic clock. Returns the exit status:
    the help tells what it means."""
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
    if not planned:
        print(f"{arguments.out} has all rows that were asked for", file=sys.stderr)
        return int(earlier is not None and earlier.has_failed)
    pace = Pace(arguments.budget, begun)
    try:
        status = _run(planned, arguments.out, device, _told(argv), earlier, pace)
    except RuntimeError as error:  # no CUPTI, or no memory: then no row could be measured either
        print(f"python -m benchmarks: a device copy cannot be timed: {error}", file=sys.stderr)
        return 1
    print(f"{arguments.out} holds the rows; python -m reports {arguments.out} tells what they say")
    return status


def _told(argv: Sequence[str]) -> str:
    """The call as rows tell it: the same for all processes of a run."""
    kept, words = ["python", "-m", "benchmarks"], iter(argv)
    for word in words:
        if word in _UNTOLD:
            next(words)
        elif word != "--resume" and not word.startswith(tuple(f"{name}=" for name in _UNTOLD)):
            kept.append(word)
    return shlex.join(kept)


def _run(
    planned: Sequence[Job],
    out: Path,
    device: torch.device,
    command: str,
    earlier: Earlier | None,
    pace: Pace,
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
    is_failed = earlier is not None and earlier.has_failed
    left = sum(len(job.rows) for job in planned)
    with progress(left) as shown, noting(out) as note:

        def running(what: Running) -> None:
            note(what)
            shown.running(what)

        culprit = earlier.culprit if earlier else None
        for row in measured(planned, running, monitor, culprit, pace):
            rows.append(out, row, where)
            shown.row(row)
            left -= 1
            is_failed |= rows.is_failure(row.executor, row.status)
            if row.status == "error" and is_lost(device):
                print("the GPU is lost to this process; --resume goes on after it", file=sys.stderr)
                return LOST
    if pace.is_over:
        print(f"the budget is spent: {left} rows are left; --resume goes on", file=sys.stderr)
        return OUT_OF_TIME
    return int(is_failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        allow_abbrev=False,
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
    parser.add_argument("--out", type=Path, default=OUT, help="default: %(default)s")
    parser.add_argument("--resume", action="store_true", help="keep --out and skip its rows")
    parser.add_argument(
        "--budget", type=float, metavar="SECONDS", help="end in time, with all rows written"
    )
    parser.add_argument(
        "--limit",
        type=float,
        metavar="SECONDS",
        help="measure in a process of its own, which is ended where it compiles or times one "
        "workload for longer, and started again where it dies",
    )
    parser.add_argument("--list", action="store_true", help="name workloads and sizes, and stop")
    return parser
