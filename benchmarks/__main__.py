"""`python -m benchmarks`: measure, write rows, stop."""

from __future__ import annotations

import argparse
import difflib
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar
from uuid import uuid4

import torch

from benchmarks.executors import EXECUTORS
from benchmarks.measure import copy_gbps, is_lost
from benchmarks.rows import Row, append, environment, resume, start
from benchmarks.run import rows
from benchmarks.workloads import WORKLOADS

_EXAMPLES = """examples:
  python -m benchmarks                                     everything, on the GPU
  python -m benchmarks --quick                             small sizes, which a CPU can run
  python -m benchmarks --work rmsnorm,softmax --exec eager,ours --out rows.jsonl
  python -m benchmarks --resume                            go on where a run was interrupted

Rows of an earlier run at --out move to NAME.previous.jsonl; `python -m reports` reads either.
exit status 1: a row of ours failed; 2: a wrong call
"""
Named = TypeVar("Named")


def main(argv: Sequence[str]) -> int:
    """Returns the exit status: 1 if a row of ours failed, 2 for a wrong call."""
    arguments = _parser().parse_args(argv)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        workloads = _chosen("workload", arguments.work, WORKLOADS, lambda row: row.name)
        executors = _chosen("executor", arguments.exec, EXECUTORS, lambda row: row.name)
        if device.type == "cpu" and not arguments.quick:
            raise ValueError("without a GPU only --quick sizes can be run: add --quick")
        done = resume(arguments.out, device) if arguments.resume else set()
    except ValueError as error:
        print(f"python -m benchmarks: {error}", file=sys.stderr)
        return 2
    command = shlex.join(["python", "-m", "benchmarks", *argv])
    try:
        where = environment(device, command, uuid4().hex, copy_gbps(device))
    except RuntimeError as error:  # no CUPTI, or no memory: then no row could be measured either
        print(f"python -m benchmarks: a device copy cannot be timed: {error}", file=sys.stderr)
        return 1
    if not arguments.resume:
        start(arguments.out)
    is_failed = False
    for row in rows(workloads, executors, device, arguments.quick, done):
        append(arguments.out, row, where)
        print(_line(row), file=sys.stderr, flush=True)
        is_failed |= row.executor == "ours" and row.status != "ok"
        if row.status == "error" and is_lost(device):
            print("the GPU is lost to this process; --resume goes on after it", file=sys.stderr)
            return 1
    print(f"{arguments.out} holds the rows; python -m reports {arguments.out} tells what they say")
    return int(is_failed)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measure workloads under several executors: on the GPU if there is one, else "
        "on the host target, where times tell nothing about a GPU.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="small sizes")
    parser.add_argument("--work", metavar="NAMES", help=", ".join(row.name for row in WORKLOADS))
    parser.add_argument("--exec", metavar="NAMES", help=", ".join(row.name for row in EXECUTORS))
    parser.add_argument("--out", type=Path, default=Path("rows.jsonl"), help="default: %(default)s")
    parser.add_argument("--resume", action="store_true", help="keep --out and skip its rows")
    return parser


def _chosen(
    kind: str, names: str | None, known: Sequence[Named], name_of: Callable[[Named], str]
) -> list[Named]:
    """The rows named, all without names. Raises ValueError, with the nearest, for an unknown."""
    if names is None:
        return list(known)
    by_name = {name_of(row): row for row in known}
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in by_name:
            near = difflib.get_close_matches(name, by_name, n=1)
            hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(by_name)}"
            raise ValueError(f"no {kind} {name!r}: {hint}")
    return [by_name[name] for name in wanted]


def _line(row: Row) -> str:
    head = f"{row.workload:16} {row.executor:16} {row.phase:9}"
    if row.status != "ok":
        return f"{head} {row.status}: {row.error_msg}"
    time, clock = (
        (row.wall_us_p50, "us wall") if row.kernel_us_p50 is None else (row.kernel_us_p50, "us")
    )
    return f"{head} {time:10.1f} {clock}  error {row.err_vs_fp64:.1e}"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
