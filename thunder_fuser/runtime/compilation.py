"""What a compiler is given and gives back, whichever of the two it is."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.runtime.errors import CompileError

CONTEXT_LINES = 3  # shown before and after the line that a compiler complains about


@dataclass(frozen=True)
class Unit:
    """A translation unit: the kernel's name, its text, what the compiler needs before and after,
    and the text of what is linked to it, the same for many.

    Line numbers in messages count from the first line of `text`.
    """

    name: str
    text: str
    before: str = ""
    after: str = ""
    beside: str = ""

    @property
    def file_name(self) -> str:
        return f"{self.name}.cu"

    @property
    def complete(self) -> str:
        """What the compiler reads."""
        if not self.before:
            return self.text
        return f'{self.before}\n#line 1 "{self.file_name}"\n{self.text}\n{self.after}\n'


@dataclass(frozen=True)
class Compiled:
    """A cubin or shared object; registers per thread and spilled bytes where the compiler tells."""

    payload: bytes
    registers: int | None = None
    spill_bytes: int | None = None


class Launcher(Protocol):
    """Starts one kernel on a raw stream. `values`: an address for each pointer, a Python number
    for each scalar, in the order of the source's parameters."""

    def __call__(self, stream: int, *values: object) -> None: ...


class Loaded(Protocol):
    """A compiled kernel in this process, ready to be given a grid and arguments."""

    def bind(
        self, source: Source, constants: Sequence[int], options: Options, device: int | None
    ) -> Launcher:
        """A launcher for the grid of `source`, whose last parameters are `constants`."""
        ...


def refusal(compiler: str, unit: Unit, log: str, dump: str | None) -> CompileError:
    """The error for a unit that `compiler` refused. Writes the text to a file that stays.

    The file goes to the directory `dump` if that can be written, else to a new private one.
    """
    path = _write(unit, dump)
    message = f"{compiler} refused the kernel {unit.name}, written to {path}"
    line = _faulty_line(unit, log)
    shown = "" if line is None else f"\n{numbered(unit.text, line)}\n"
    text = None if line is None else unit.text.splitlines()[line - 1]
    return CompileError(f"{message}\n{shown}\n{log.strip()}", log, path, text)


def numbered(text: str, line: int) -> str:
    """The lines of `text` around `line` (counted from 1), with numbers and an arrow."""
    lines = text.splitlines()
    first, last = max(1, line - CONTEXT_LINES), min(len(lines), line + CONTEXT_LINES)
    return "\n".join(
        f"{'->' if n == line else '  '} {n:4} | {lines[n - 1]}" for n in range(first, last + 1)
    )


def _faulty_line(unit: Unit, log: str) -> int | None:
    """The line of the first error: NVRTC says `k.cu(3): error`, the others `k.cu:3:7: error`."""
    found = re.search(rf"{re.escape(unit.file_name)}[(:](\d+).*error", log)
    return int(found[1]) if found else None


def _write(unit: Unit, dump: str | None) -> Path:
    if dump is not None:
        try:
            Path(dump).mkdir(mode=0o700, parents=True, exist_ok=True)
            return _written(Path(dump, unit.file_name), unit)
        except OSError:
            pass  # the refusal is what matters; the dump complains on its own
    return _written(Path(tempfile.mkdtemp(prefix="thunder_fuser-refused-"), unit.file_name), unit)


def _written(path: Path, unit: Unit) -> Path:
    path.write_text(unit.text)
    return path
