"""`draw`: run a script, then draw every function that it compiled."""

from __future__ import annotations

import argparse
import re
from pathlib import Path
from typing import Any

from thunder_fuser.cli.script import Ran, add_script, run_script
from thunder_fuser.cli.text import add_json, show
from thunder_fuser.executor.draw import drawing

_EXAMPLES = """examples:
  python -m thunder_fuser draw train.py                       writes train.svg
  python -m thunder_fuser draw --out block.svg train.py --epochs 1

From left to right: regions and what stays outside of them, with the reason; segments, with what is
a view of what; kernels. Wires are tensors, rows say their bytes. Any browser shows it. Of a script
with several functions each gets a file of its own: train_NAME.svg.
"""


def add(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser(
        "draw",
        help="run a script and draw its regions, segments, kernels and aliases",
        description="Run a script, then draw each function that it compiled and called, as SVG.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", metavar="FILE.svg", help="default: the script's name")
    add_json(parser)
    add_script(parser)
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Write a file per function. Returns 1 if there is none or the script failed."""
    ran = run_script(arguments, is_quiet=arguments.json)
    files = _files(ran, arguments.out)
    for name, path in files.items():
        path.write_text(drawing(ran.functions[name], name))
    show({name: str(path) for name, path in files.items()}, arguments.json)
    return ran.status()


def _files(ran: Ran, out: str | None) -> dict[str, Path]:
    """Where the picture of each function goes."""
    path = Path(out or f"{Path(ran.script).stem}.svg")
    if len(ran.functions) == 1:
        return dict.fromkeys(ran.functions, path)
    words = {name: re.sub(r"[^\w.-]+", "_", name) for name in ran.functions}
    return {k: path.with_name(f"{path.stem}_{word}{path.suffix}") for k, word in words.items()}
