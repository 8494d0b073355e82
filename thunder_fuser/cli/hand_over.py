"""`bench`, `report`, `compare`: they belong to the checkout, and these commands run them there.

The package that is installed holds no benchmarks and no reports: they need workloads, peers and
pandas, which nobody needs who only fuses. `bench ARGS` is `python -m benchmarks ARGS`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

_REPOSITORY = Path(__file__).resolve().parents[2]  # of an editable install, or of a checkout

_COMMANDS = {
    "bench": ("benchmarks", (), "measure workloads beside eager torch, Inductor and nvFuser"),
    "report": ("reports", (), "tables of the rows that bench wrote"),
    "compare": ("reports", ("compare",), "what became slower, wrong or broken between two runs"),
}


def add(commands: Any) -> None:
    """Describe the three commands to argparse; what follows their names is not ours to read."""
    for name, (module, words, what) in _COMMANDS.items():
        parser = commands.add_parser(name, help=what, add_help=False, prefix_chars="\0")
        parser.add_argument("arguments", nargs=argparse.REMAINDER)
        parser.set_defaults(run=run, module=module, words=words)


def run(arguments: argparse.Namespace) -> int:
    """Run the module with the arguments. Returns its exit status; 2 without a checkout."""
    repository = checkout(arguments.module)
    if repository is None:
        print(_missing(arguments.command, arguments.module), file=sys.stderr)
        return 2
    command = [sys.executable, "-m", arguments.module, *arguments.words, *arguments.arguments]
    before = os.environ.get("PYTHONPATH")
    path = str(repository) if not before else os.pathsep.join((str(repository), before))
    return subprocess.call(command, env={**os.environ, "PYTHONPATH": path})


def checkout(module: str) -> Path | None:
    """The checkout that holds the module: the one that this package runs from, else the current
    directory."""
    for place in (_REPOSITORY, Path.cwd()):
        if (place / module / "__main__.py").is_file() and _is_ours(place):
            return place
    return None


def _is_ours(place: Path) -> bool:
    """Other packages have benchmarks too."""
    try:
        return 'name = "thunder-fuser"' in (place / "pyproject.toml").read_text()
    except OSError:
        return False


def _missing(command: str, module: str) -> str:
    return (
        f"thunder_fuser {command}: `{module}` is not part of the installed package. It stands in "
        "the checkout of its\nrepository: go there and run\n"
        f"  python -m thunder_fuser {command}"
    )
