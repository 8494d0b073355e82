"""The user's line: where in the calling program a definition or a call went wrong."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path
from typing import NamedTuple

_PACKAGE = str(Path(__file__).resolve().parent.parent)


class Place(NamedTuple):
    """A line of the calling program; `str()` reads it from the file."""

    file: str
    line: int

    def __str__(self) -> str:
        code = linecache.getline(self.file, self.line).strip()
        where = f"{self.file}:{self.line}"
        return f"{where}: {code}" if code else where


def user_line() -> Place:
    """The line of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    return Place(frame.f_code.co_filename, frame.f_lineno)
