"""The user's line: where in the calling program a definition or a call went wrong."""

from __future__ import annotations

import linecache
import sys
from pathlib import Path

_PACKAGE = str(Path(__file__).resolve().parent.parent)


def user_line() -> str:
    """`file:line: code` of the innermost frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    name, line = frame.f_code.co_filename, frame.f_lineno
    code = linecache.getline(name, line).strip()
    return f"{name}:{line}: {code}" if code else f"{name}:{line}"
