"""Programs that stand where a process that measures is started, and what they leave."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest


def child(path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Have this program started instead of any of Python's."""
    program = path / "python"
    (path / "child.py").write_text(text)
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -W ignore {path}/child.py "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(program))


def rows(out: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.read_text().splitlines()]
