"""`explain`: run a script, then say what became of every function that it compiled."""

from __future__ import annotations

import argparse
import runpy
import sys
from pathlib import Path
from typing import Any

import thunder

from thunder_fuser.executor.explain import explain
from thunder_fuser.options import options

_EXAMPLES = """examples:
  python -m thunder_fuser explain train.py
  python -m thunder_fuser explain --dump stages train.py --epochs 1

The script has to leave the results of thunder.jit in variables of its own module.
"""


def add(commands: Any) -> None:
    """Describe the command to argparse."""
    parser = commands.add_parser(
        "explain",
        help="run a script and explain what was fused, what not, and why",
        description="Run a script, then explain each function that it compiled and called.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--dump", metavar="DIR", help="write the text of every stage there")
    parser.add_argument("script", help="the Python file to run")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Explain the script's functions. Returns 1 if it compiled none."""
    chosen = {} if arguments.dump is None else {"dump": arguments.dump}
    with options(**chosen):
        found = compiled_functions(arguments.script, arguments.arguments)
    for name, function in found.items():
        print(f"{name}\n{'=' * len(name)}\n{explain(function)}\n")
    if not found:
        print(f"{arguments.script} has no variable that holds a called result of thunder.jit")
    return 0 if found else 1


def compiled_functions(script: str, arguments: list[str]) -> dict[str, Any]:
    """The functions that thunder.jit made and that were called, by the variable that holds them."""
    before, sys.argv = sys.argv, [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    try:
        namespace = runpy.run_path(script, run_name="__main__")
    finally:
        sys.argv = before
        sys.path.remove(str(Path(script).parent))
    return {name: value for name, value in namespace.items() if _was_called(value)}


def _was_called(value: object) -> bool:
    statistics = thunder.compile_stats(value) if callable(value) else None
    return statistics is not None and bool(statistics.last_traces)
