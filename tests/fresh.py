"""Programs in a process that has run none before, as a user's next one: forked from a process that
has imported the package and done nothing else, for to import it takes longer than most tests.

Hashes there have seed 1, and here a random one. `python -m tests.fresh` is the process that forks.
"""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from tests.devices import QUICK_BYTES
from thunder_fuser.runtime import host_compiler

ROOT = Path(__file__).parents[1]
FAILED = 1


def run(
    code: str, *arguments: str, environment: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """The program `code`, called with these arguments under these variables beside ours."""
    variables = {**os.environ, **(environment or {})}
    with tempfile.TemporaryDirectory() as directory:
        out, err = (str(Path(directory, name)) for name in ("out", "err"))
        status = _ask([code, arguments, variables, os.getcwd(), out, err])
        texts = (Path(name).read_text() for name in (out, err))
        return subprocess.CompletedProcess(code, status, *texts)


def output(code: str, *arguments: str, environment: Mapping[str, str] | None = None) -> str:
    """What the program prints, where it does not fail."""
    done = run(code, *arguments, environment=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def script(path: Path, environment: Mapping[str, str] | None = None) -> str:
    """What the program in this file prints."""
    code = f"import runpy; runpy.run_path({str(path)!r}, run_name='__main__')"
    return output(code, environment=environment)


def _ask(request: Sequence[object]) -> int:
    """The exit status, negative where a signal ended the program."""
    questions, answers = _server()
    print(json.dumps(request), file=questions, flush=True)
    return int(answers.readline())


@cache
def _server() -> tuple[IO[str], IO[str]]:
    """The pipes of the process that forks, one of each worker of a test run."""
    command = [sys.executable, "-W", "ignore", "-m", "tests.fresh"]
    environment = {**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    server = subprocess.Popen(command, env=environment, stdin=pipe, stdout=pipe, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    atexit.register(server.wait)
    atexit.register(server.stdin.close)  # before the wait: the last comes first
    return server.stdin, server.stdout


def _serve() -> None:
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _become(*json.loads(line))
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _become(
    code: str, arguments: list[str], variables: dict[str, str], place: str, out: str, err: str
) -> None:
    """Run the program as if this were a process of its own, and end."""
    status = 0
    for descriptor, name in ((1, out), (2, err)):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), descriptor)
    try:
        os.environ.clear()
        os.environ.update(variables)
        os.chdir(place)
        sys.argv = ["-c", *arguments]
        exec(compile(code, "<fresh>", "exec"), {"__name__": "__main__"})
    except SystemExit as stop:
        status = stop.code if isinstance(stop.code, int) else FAILED
    except BaseException:
        traceback.print_exc()
        status = FAILED
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    host_compiler.SMALL_BYTES = QUICK_BYTES
    _serve()
