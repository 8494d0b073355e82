"""A short selection of Thunder's own tests, run with our executor in a process of their own.

The whole suites run by hand, as `probe` shows.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import thunder

SUITES = Path(thunder.__file__).parent / "tests"
HERE = Path(__file__).parent
SHAPE_OPS = "cat or chunk or flip or pad or permute or reshape or slice or where"
REDUCTIONS = "layer_norm or prod or softmax or std"

SELECTIONS = {  # of files, in a process each: to import and to collect costs as much as tests
    "writes and reductions": (
        ("test_inplace_copy.py", "test_update_aliases.py", "test_reductions.py"),
        "",
    ),
    "ops": (("test_ops.py",), f"and float32 and ({SHAPE_OPS} or {REDUCTIONS})"),
}


@pytest.mark.slow
@pytest.mark.parametrize("selection", SELECTIONS)
def test_thunders_tests_pass(selection: str) -> None:
    files, names = SELECTIONS[selection]
    pytest.importorskip("thunder.tests.framework")
    paths = (str(HERE.parents[1]), str(HERE), os.environ.get("PYTHONPATH", ""))
    command = [sys.executable, "-W", "ignore", "-m", "pytest", "--noconftest", "-q"]
    command += ["-p", "probe", "-p", "no:cacheprovider", "-p", "no:logging"]
    command += ["-k", f"thunder_fuser {names}", *(str(SUITES / file) for file in files)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
