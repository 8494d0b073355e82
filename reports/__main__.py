"""`python -m reports`: a report of a run; `compare`: a verdict on it; `history`: over many runs."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from reports import markdown, report, trends, verdict
from reports.changes import changes
from reports.columns import nearest
from reports.compare import compare, regressions
from reports.history import history
from reports.page import Page, Section
from reports.read import read, rows_of
from reports.rows import BadRows, Run
from reports.write import write, write_rows

_EXAMPLES = """examples:
  python -m reports rows.jsonl                                print the tables
  python -m reports rows.jsonl --out reports/2026-11-20-h200  write report.html and report.md there
  python -m reports kernels.jsonl models.csv                  one run whose rows lie in two files
  python -m reports rows.jsonl --suite rope --exec ours,inductor
  python -m reports rows.jsonl --baseline rows.previous.jsonl the report and the verdict in one
  python -m reports compare rows.previous.jsonl rows.jsonl    what became slower, wrong or broken
  python -m reports compare --json OLD NEW                    the same for a program
  python -m reports history reports/*-h200                    trends over runs of one device

A directory stands for the files of rows in it, which are JSONL or CSV.
exit status 1: a row of ours regressed; 2: a wrong call, or rows that cannot be reported
"""


def main(argv: Sequence[str]) -> int:
    """Returns the exit status: 1 for a regression, 2 for bad rows or a wrong call."""
    name, *rest = argv or [""]
    made = shlex.join(["python", "-m", "reports", *argv])
    try:
        if name in _COMMANDS:
            return _COMMANDS[name](rest, made)
        return _report(argv, made)
    except BadRows as error:
        is_path = name in _COMMANDS or Path(name).exists()
        near = None if is_path else nearest(name, _COMMANDS)
        hint = f"; or did you mean `python -m reports {near}`?" if near else ""
        print(f"python -m reports: {error}{hint}", file=sys.stderr)
        return 2


def _report(argv: Sequence[str], made: str) -> int:
    parser = _parser("", "Tables and plots of the rows that `python -m benchmarks` wrote.")
    parser.add_argument("rows", type=Path, nargs="+", help="files of a run; or compare, history")
    parser.add_argument("--baseline", type=Path, metavar="OLD", help="judge the run by this one")
    for option, column in _FILTERS.items():
        parser.add_argument(f"--{option}", metavar="NAMES", help=f"only rows of these {column}s")
    arguments = parser.parse_args(argv)
    run = _chosen(read(arguments.rows), arguments)
    extra: tuple[Section, ...] = ()
    status = 0
    if arguments.baseline is not None:
        old = _chosen(read([arguments.baseline]), arguments)
        verdicts = compare(old, run)
        extra = verdict.sections(verdicts, changes(old, run))
        status = int(bool(regressions(verdicts)))
    _show(report.page(run, made, extra), arguments.out, "report")
    if arguments.out is not None and not _lies_in(arguments.rows, arguments.out):
        write_rows(run, arguments.out)
    return status


def _compare(argv: Sequence[str], made: str) -> int:
    parser = _parser("compare", "Judge the rows of ours in NEW by those in OLD, of one device.")
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    old, new = read([arguments.old]), read([arguments.new])
    verdicts, others = compare(old, new), changes(old, new)
    page = verdict.page(old, new, verdicts, others, made)
    text = verdict.as_json(old, new, verdicts, others) if arguments.json else None
    _show(page, arguments.out, "compare", text)
    return 1 if regressions(verdicts) else 0


def _history(argv: Sequence[str], made: str) -> int:
    parser = _parser("history", "Geometric means and times of ours over runs of one device.")
    parser.add_argument("runs", type=Path, nargs="+", metavar="DIR", help="a run each")
    parser.add_argument("--json", action="store_true", help="print JSON")
    arguments = parser.parse_args(argv)
    found = history([read([path]) for path in arguments.runs])
    text = trends.as_json(found) if arguments.json else None
    _show(trends.page(found, made), arguments.out, "history", text)
    return 0


_COMMANDS: dict[str, Callable[[Sequence[str], str], int]] = {
    "compare": _compare,
    "history": _history,
}
_FILTERS = {"suite": "suite", "work": "workload", "exec": "executor"}


def _parser(command: str, description: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"python -m reports {command}".strip(),
        description=description,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="receives the page and its plots")
    return parser


def _chosen(run: Run, arguments: argparse.Namespace) -> Run:
    for option, column in _FILTERS.items():
        names = getattr(arguments, option)
        if names is not None:
            run = run.only(column, [name.strip() for name in names.split(",")])
    return run


def _show(page: Page, out: Path | None, name: str, text: str | None = None) -> None:
    """On the terminal the Markdown, or `text` instead, and where the files are."""
    print(markdown.render(page) if text is None else text, end="" if text is None else "\n")
    if out is not None:
        print(f"{write(page, out, name)} is the page", file=sys.stderr)


def _lies_in(paths: Sequence[Path], directory: Path) -> bool:
    files = [file for path in paths for file in rows_of(path)]
    return any(file.parent.resolve() == directory.resolve() for file in files)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
