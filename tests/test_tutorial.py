"""What docs/tutorial.md claims. Its quoted outputs are compared in test_documents.py."""

from __future__ import annotations

import copy
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.documents import ROOT
from tests.tutorial import SCRIPT, ran
from thunder_fuser.cli.main import main, parser
from thunder_fuser.executor.steps import halves

PAGE = (ROOT / "docs" / "tutorial.md").read_text()
COMMANDS = [
    line for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()
]
needs_host_target = pytest.mark.skipif(
    torch.cuda.is_available(), reason="with a GPU the script runs there"
)


@needs_host_target
def test_the_block_is_as_near_to_fp64_as_eager() -> None:
    block, (x, cos, sin) = ran()["make_block"]()
    jblock, inputs = ran()["jblock"], ran()["inputs"]
    exact = copy.deepcopy(block).double()(x.double(), cos.double(), sin.double())
    ours = (jblock(*inputs).double() - exact).norm()
    assert ours <= 1.5 * (block(x, cos, sin).double() - exact).norm()


@needs_host_target
def test_the_mask_is_computed_where_the_softmax_is() -> None:
    forward, _ = halves(ran()["counted"])
    (softmax,) = (s for s in forward.steps if s.region and "amax" in [o.op for o in s.symbols])
    assert {"le", "sum", "eq", "where", "exp"} <= {symbol.op for symbol in softmax.symbols}
    tokens = ran()["TOKENS"]
    assert sorted(value.type for value in softmax.reads) == [
        f"bf16[2, 4, {tokens}, {tokens}]",  # the scores
        f"i64[2, {ran()['DOCUMENTS']}]",  # the starts
    ]
    assert softmax.region is not None
    (plan,) = softmax.region.plans()
    assert plan.count("launch") == 1


def test_it_names_the_litgpt_that_the_tests_install() -> None:
    (version,) = re.findall(r"pip install (litgpt==\S+)", PAGE)
    assert f'"{version}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.parametrize("command", [c for c in COMMANDS if "-m thunder_fuser" in c])
def test_its_commands_parse(command: str) -> None:
    words = shlex.split(command.partition("-m thunder_fuser ")[2])
    assert parser().parse_args(words).command == words[0]


@needs_host_target
@pytest.mark.slow
def test_its_report_can_be_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    measuring = [c for c in COMMANDS if re.search(r"thunder_fuser (bench|report|compare) ", c)]
    assert len(measuring) == 3
    for command in measuring:
        assert main(shlex.split(command)[3:]) == 0


@needs_host_target
@pytest.mark.slow
def test_the_script_runs_under_the_options_that_find_faults() -> None:
    variables = dict(re.findall(r"^(THUNDER_FUSER_\w+)=(\w+) python docs", PAGE, re.MULTILINE))
    assert variables == {"THUNDER_FUSER_CHECK": "eager", "THUNDER_FUSER_FUEL": "3"}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(SCRIPT)],
        check=True,
        env={**os.environ, **variables, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
    )
    headings = re.findall(r"^\w+: \d+ symbols in (\d+) region", done.stdout, re.MULTILINE)
    assert headings == ["3", "0", "0", "0", "0", "0"]
