"""What `python -m benchmarks` does in the process that measures."""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from uuid import uuid4

import torch

from benchmarks import gpu_state, lanes, rows
from benchmarks.executors import EXECUTORS
from benchmarks.jobs import Job, jobs
from benchmarks.keeper import OUT, Limits
from benchmarks.lanes import chosen_gpus, without
from benchmarks.measure import copy_gbps, is_lost
from benchmarks.note import Running, noting
from benchmarks.pace import LOST, OUT_OF_TIME, Pace
from benchmarks.progress import progress
from benchmarks.resume import Earlier, resume
from benchmarks.run import measured
from benchmarks.selection import executors_for, select, table
from benchmarks.share import BEFORE, Share, expected_seconds
from benchmarks.suites import SUITES

_EXAMPLES = """examples:
  python -m benchmarks                                     everything, on the GPU
  python -m benchmarks --quick                             small sizes, which a CPU can run
  python -m benchmarks --suite kernels --work rmsnorm,softmax --exec eager,ours --out rows.jsonl
  python -m benchmarks --suite rope --lengths 4096,8192    some lengths only
  python -m benchmarks --suite models --layers 2,8         LitGPT models of 2 and of 8 layers
  python -m benchmarks --resume                            go on where a run was interrupted
  python -m benchmarks --resume --budget 540 --limit 150   for nine minutes, and past what hangs
  python -m benchmarks --gpus all --budget 540 --limit 150 on all GPUs at once, into one file
  python -m benchmarks --list                              what there is to measure

Rows of an earlier run at --out move to NAME.previous.jsonl; `python -m reports` reads either.
docs/benchmarks.md says what is measured and how.
exit status 1: a row of ours failed; 2: a wrong call; 3: the budget was spent before all rows were
measured; 4: the GPU was lost to the process. --resume goes on after the last two.
"""
_END = "{out} holds the rows; python -m reports {out} tells what they say"
_UNTOLD = ("--budget", "--limit")  # with their values: they do not change what is measured


def main(argv: Sequence[str], begun: float | None = None) -> int:
    """Measure for a process that began at `begun` of the monotonic clock. Returns the exit status:
    the help tells what it means."""
    arguments = _parser().parse_args(argv)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    share = Share.of(arguments.share, arguments.out.stem) if arguments.share else None
    try:
        sizes = {"layers": arguments.layers, "length": arguments.lengths}
        suites = select(SUITES, arguments.suite, arguments.work, sizes)
        executors = executors_for(arguments.exec, EXECUTORS, device)
        if arguments.list:
            print(table(suites, arguments.quick))
            return 0
        if device.type == "cpu" and not arguments.quick:
            raise ValueError("without a GPU only --quick sizes can be run: add --quick")
        gpus = chosen_gpus(arguments.gpus) if arguments.gpus else []
        earlier = resume(arguments.out, device) if arguments.resume else None
        done = earlier.done if earlier else frozenset()
        if share is not None:
            done |= resume(share.directory / BEFORE, device).done
    except ValueError as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    planned = jobs(suites, executors, device, arguments.quick, done)
    if share is not None:
        planned.sort(key=expected_seconds, reverse=True)
    if not planned:
        print(f"{arguments.out} has all rows that were asked for", file=sys.stderr)
        return int(earlier is not None and earlier.has_failed)
    told = (earlier.run_id if earlier else None) or uuid4().hex, _told(argv)
    if share is not None:
        told = share.run_id, share.command
    begun = time.monotonic() if begun is None else begun
    try:
        if gpus:
            every = jobs(suites, executors, device, arguments.quick)
            wanted = [row.key for job in every for row in job.rows]
            limits = Limits(arguments.limit, arguments.budget, arguments.out, arguments.resume)
            status = lanes.run(argv, gpus, wanted, told, limits, begun)
        else:
            pace = Pace(arguments.budget, begun)
            status = _run(planned, arguments.out, device, told, share, earlier, pace)
    except RuntimeError as error:  # no CUPTI, or no memory: then no row could be measured either
        print(f"python -m benchmarks: a device copy cannot be timed: {error}", file=sys.stderr)
        return 1
    if share is None:
        print(_END.format(out=arguments.out))
    return status


def _told(argv: Sequence[str]) -> str:
    """The call as rows tell it: the same for all processes of a run."""
    return shlex.join(["python", "-m", "benchmarks", *without(argv, _UNTOLD, ("--resume",))])


def _run(
    planned: Sequence[Job],
    out: Path,
    device: torch.device,
    told: tuple[str, str],
    share: Share | None,
    earlier: Earlier | None,
    pace: Pace,
) -> int:
    """Measure and write: as a lane of several, or alone. `told` are the id and the command of all
    rows. Raises RuntimeError where the roof cannot be measured."""
    monitor = gpu_state.monitor(device)
    roof, state = copy_gbps(device), monitor()
    run_id, command = told
    is_locked = None if state is None else state.clocks_locked
    where = rows.environment(device, command, run_id, roof, is_locked)
    if earlier is None:
        rows.start(out)
    is_failed = earlier is not None and earlier.has_failed
    left = sum(len(job.rows) for job in planned)
    with progress(left, share is None) as shown, noting(out) as note:

        def running(what: Running) -> None:
            note(what)
            shown.running(what)

        culprit = earlier.culprit if earlier else None
        take = _all if share is None else share.take
        for row in measured(planned, running, monitor, culprit, pace, take):
            rows.append(out, row, where)
            shown.row(row)
            left -= 1
            is_failed |= rows.is_failure(row.executor, row.status)
            if row.status == "error" and is_lost(device):
                print("the GPU is lost to this process; --resume goes on after it", file=sys.stderr)
                return LOST
    if pace.is_over:
        if share is None:  # else the process of all lanes counts them
            print(f"the budget is spent: {left} rows are left; --resume goes on", file=sys.stderr)
        return OUT_OF_TIME
    return int(is_failed)


def _all(job: Job) -> bool:
    return True


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
        "--lengths",
        metavar="NUMBERS",
        help="sequence lengths: of RoPE where it is measured, else of all that have one",
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
    parser.add_argument(
        "--gpus",
        metavar="NUMBERS",
        help="measure on several at once, such as 0,1,2,3 or all; a workload stays on one of them",
    )
    parser.add_argument("--share", type=Path, help=argparse.SUPPRESS)  # of a lane of --gpus
    parser.add_argument("--list", action="store_true", help="name workloads and sizes, and stop")
    return parser
