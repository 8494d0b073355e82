"""The command line: one module per command.

A command module has `add(commands)`, which describes its arguments and names the function that runs
it. That function returns the exit status: 0 for yes, 1 for no, 2 is argparse's for a bad call.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from thunder_fuser.cli import cache, demo, environment, explain

COMMANDS = (demo, environment, explain, cache)  # in the order of the help


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, `sys.argv`'s by default. Returns its exit status."""
    parsed = parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
    except BrokenPipeError:  # who reads us, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, RuntimeError, ValueError) as error:
        print(f"thunder_fuser {parsed.command}: {error}", file=sys.stderr)
        return 1
    return status


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    made = argparse.ArgumentParser(
        prog="python -m thunder_fuser",
        description="A Lightning Thunder executor that fuses PyTorch programs into CUDA kernels.",
        epilog="Each command explains itself: python -m thunder_fuser demo --help",
    )
    commands = made.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        command.add(commands)
    return made
