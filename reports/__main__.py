"""`python -m reports`: tables of a run; `python -m reports compare`: a verdict on it."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from reports import compare, tables
from reports.rows import BadRows, read

_EXAMPLES = """examples:
  python -m reports rows.jsonl                                print the tables
  python -m reports rows.jsonl --out reports/2026-11-20-h200  and write them to report.md there
  python -m reports compare rows.previous.jsonl rows.jsonl    what became slower, wrong or broken

exit status 1: compare found a regression of ours; 2: a wrong call, or rows that cannot be reported
"""


def main(argv: Sequence[str]) -> int:
    """Returns the exit status: 1 for a regression, 2 for bad rows or a wrong call."""
    run = _compare if argv[:1] == ["compare"] else _tables
    try:
        return run(argv)
    except BadRows as error:
        print(f"python -m reports: {error}", file=sys.stderr)
        return 2


def _tables(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m reports",
        description="Tables of the rows that `python -m benchmarks` wrote, in Markdown.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("rows", type=Path, help="a JSONL file; or `compare OLD NEW`")
    parser.add_argument("--out", type=Path, metavar="DIR", help="receives report.md")
    arguments = parser.parse_args(argv)
    text = tables.page(read(arguments.rows))
    print(text, end="")
    if arguments.out is not None:
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "report.md").write_text(text)
    return 0


def _compare(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m reports compare",
        description="Judge the rows of ours in NEW by those in OLD, of the same device.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("old", type=Path, metavar="OLD")
    parser.add_argument("new", type=Path, metavar="NEW")
    arguments = parser.parse_args(argv[1:])
    verdicts = compare.compare(read(arguments.old), read(arguments.new))
    print(compare.page(verdicts), end="")
    return 1 if compare.regressions(verdicts) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
