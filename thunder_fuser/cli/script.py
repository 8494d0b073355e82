"""Run a user's script and see which functions `thunder.jit` made in it: for commands that ask
about a script."""

from __future__ import annotations

import argparse
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import thunder

from thunder_fuser.cli.text import WrongCall


@dataclass(frozen=True)
class Ran:
    """What a script left: the functions that `thunder.jit` made and that were called, by name; and
    whether it came to its end."""

    script: str
    functions: Mapping[str, Any]
    is_whole: bool

    def status(self, is_good: bool = True) -> int:
        """The exit status of a command about it."""
        return 0 if is_good and self.is_whole and self.functions else 1


def add_script(parser: argparse.ArgumentParser) -> None:
    """The script and its arguments, last on the command line."""
    parser.add_argument("script", help="the Python file to run, to its end or to a Ctrl-C")
    rest = parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its arguments")
    rest.required = False  # of Python 3.10 and 3.11: an error would ask for them


def run_script(arguments: argparse.Namespace, is_quiet: bool = False) -> Ran:
    """Run the script that the command line names.

    Where it fails, its traceback is printed, and what it compiled before is there to be looked at;
    so it is where Ctrl-C ends it, since nobody waits for a training to end.
    A quiet one prints to stderr, so that stdout holds nothing but the command's own result. Raises
    WrongCall for a script that does not exist.
    """
    path = Path(arguments.script)
    if not path.is_file():
        raise WrongCall(f"there is no script {path}")
    for option in _misplaced(arguments):
        print(
            f"{path} is given {option}; if it is for this command, it goes before", file=sys.stderr
        )
    with _noting_jit() as made, redirect_stdout(sys.stderr) if is_quiet else nullcontext():
        variables, is_whole = _run(path, [str(path), *arguments.arguments])
    found = _called(made, variables)
    if not found:
        print(f"{path} called no function that thunder.jit made", file=sys.stderr)
    return Ran(str(path), found, is_whole)


def _misplaced(arguments: argparse.Namespace) -> list[str]:
    """What is behind the script, and so its own, but is called like an option of the command."""
    names = vars(arguments).keys() - {"command", "run", "script", "arguments"}
    own = {f"--{name}".replace("_", "-") for name in names}
    return [word for word in arguments.arguments if word.partition("=")[0] in own]


@contextmanager
def _noting_jit() -> Iterator[list[Any]]:
    """While the block runs, what `thunder.jit` makes is collected: functions of `main()` and of
    closures have no name by which a script would hold them at its end."""
    made: list[Any] = []
    original: Callable[..., Any] = thunder.jit

    def jit(*args: Any, **kwargs: Any) -> Any:
        made.append(original(*args, **kwargs))
        return made[-1]

    thunder.jit = jit
    try:
        yield made
    finally:
        thunder.jit = original


def _run(path: Path, argv: list[str]) -> tuple[Mapping[str, Any], bool]:
    """The script's variables, and whether it came to its end."""
    before, sys.argv = sys.argv, argv
    sys.path.insert(0, str(path.parent))
    try:
        return runpy.run_path(str(path), run_name="__main__"), True
    except SystemExit as stopped:
        if stopped.code not in (None, 0):
            print(f"{path} stopped: {stopped.code}", file=sys.stderr)
        return _variables(stopped, path), stopped.code in (None, 0)
    except KeyboardInterrupt as stopped:
        print(f"{path} was interrupted", file=sys.stderr)
        return _variables(stopped, path), False
    except Exception as error:
        shown = traceback.format_exception(type(error), error, _own_frames(error, path))
        print("".join(shown), end="", file=sys.stderr)
        return _variables(error, path), False
    finally:
        sys.argv = before
        sys.path.remove(str(path.parent))


def _own_frames(error: BaseException, path: Path) -> TracebackType | None:
    """The traceback from the script's own first frame on; None for a script that does not parse,
    whose error says where."""
    found = error.__traceback__
    while found is not None and found.tb_frame.f_code.co_filename != str(path):
        found = found.tb_next
    return found


def _variables(error: BaseException, path: Path) -> Mapping[str, Any]:
    found = _own_frames(error, path)
    return found.tb_frame.f_globals if found is not None else {}


def _called(made: list[Any], namespace: Mapping[str, Any]) -> dict[str, Any]:
    """The functions that were called, by the variable that holds them, else by what they hold."""
    variables: dict[int, str] = {}
    for name, value in namespace.items():
        variables.setdefault(id(value), name)
    found: dict[str, Any] = {}
    for function in made:
        statistics = thunder.compile_stats(function)
        if statistics is None or not statistics.last_traces:
            continue
        name = variables.get(id(function)) or _name_of(function)
        same = sum(known == name or known.startswith(f"{name} #") for known in found)
        found[f"{name} #{same + 1}" if same else name] = function
    return found


def _name_of(function: Any) -> str:
    compiled = thunder.compile_data(function).fn
    return str(getattr(compiled, "__name__", type(compiled).__name__))
