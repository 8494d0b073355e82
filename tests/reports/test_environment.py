"""What reports need is said twice, once for pip and once for tox: the same."""

from __future__ import annotations

import configparser
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_tox_installs_the_extra() -> None:
    tomllib = pytest.importorskip("tomllib", reason="needs Python 3.11")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini")
    installed = tox["testenv:report"]["deps"].split()
    assert installed == project["optional-dependencies"]["report"]
