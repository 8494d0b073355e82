"""The command line: one module per command.

A command module has `add(commands)`, which describes its arguments and names the function that runs
it. That function returns the exit status: 0 for yes, 1 for no, 2 for a wrong call.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from pathlib import Path

from thunder_fuser.cli import (
    cache,
    demo,
    draw,
    environment,
    explain,
    hand_over,
    profile,
    repro,
)
from thunder_fuser.cli.text import WrongCall, nearest
from thunder_fuser.runtime.cache_entry import package_version

# In the order of the help; the last one adds three.
COMMANDS = (demo, environment, explain, draw, profile, repro, cache, hand_over)

_EXAMPLES = """first steps:
  python -m thunder_fuser demo                  see a rotary embedding become one kernel
  python -m thunder_fuser explain script.py     what of your program was fused, and why not the rest

Each command explains itself: python -m thunder_fuser demo --help
exit status: 0 yes; 1 no, or something failed; 2 a wrong call
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command, `sys.argv`'s by default. Returns its exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    made, names = _parsers()
    if not given:
        made.print_help(sys.stderr)
        return 2
    if given[0] not in names and not given[0].startswith("-"):
        made.error(_no_command(given[0], names))
    parsed = made.parse_args(given)
    try:
        status: int = parsed.run(parsed)
    except KeyboardInterrupt:
        return 130  # what a shell says of a program that Ctrl-C ended
    except BrokenPipeError:  # who reads us, `head` for one, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (OSError, RuntimeError, ValueError) as error:
        print(f"thunder_fuser {parsed.command}: {error}", file=sys.stderr)
        return 2 if isinstance(error, WrongCall) else 1
    return status


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    return _parsers()[0]


def _parsers() -> tuple[argparse.ArgumentParser, Collection[str]]:
    """The parser of all commands, and their names."""
    made = argparse.ArgumentParser(
        prog="python -m thunder_fuser",
        description="A Lightning Thunder executor that fuses PyTorch programs into CUDA kernels.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    version = f"thunder_fuser {package_version()}"
    made.add_argument("--version", action="version", version=version)
    commands = made.add_subparsers(dest="command", required=True, metavar="command")
    for command in COMMANDS:
        command.add(commands)
    return made, tuple(commands.choices)


def _no_command(word: str, names: Collection[str]) -> str:
    if Path(word).suffix == ".py":
        return f"no command {word!r}: to ask about a script: explain {word}"
    return f"no command {word!r}: {nearest(word, names)}"
