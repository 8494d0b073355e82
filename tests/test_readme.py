"""README's commands, example and quoted row are real."""

from __future__ import annotations

import re
import shlex

import pytest
import thunder
import torch

from tests.documents import ROOT
from thunder_fuser import explain, fuser
from thunder_fuser.cli.main import parser

README = (ROOT / "README.md").read_text()


def test_ci_runs_the_test_command_word_for_word() -> None:
    """.ci/run reads the command from README with this expression."""
    pattern = r"^(python3 -m venv .*tox run .*)$"
    assert len(re.findall(pattern, README, re.MULTILINE)) == 1
    assert r"s/^\(python3 -m venv .*tox run .*\)$/\1/p" in (ROOT / ".ci" / "run").read_text()


def test_the_environments_it_names_exist() -> None:
    named = ",".join(re.findall(r"tox run -e ([\w,]+)", README)).split(",")
    described = re.findall(r"\[testenv:(\w+)\]", (ROOT / "tox.ini").read_text())
    assert set(named) <= {"cpu", *described}  # cpu is tox's base environment


@pytest.mark.parametrize(
    "command", sorted(set(re.findall(r"python -m thunder_fuser ([^`\n]+)", README)))
)
def test_its_commands_parse(command: str) -> None:
    arguments = [word for word in shlex.split(command) if word != "&&"]
    assert parser().parse_args(arguments).command == arguments[0]


def test_its_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (example,) = re.findall(r"<!-- example: definition -->\n```python\n(.*?)```", README, re.DOTALL)
    exec(compile(example, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert "fd.ops.tanh(T0)" in printed
    assert 'extern "C" __global__' in printed


def test_the_row_it_shows_is_a_line_of_the_table() -> None:
    (row,) = re.findall(r"^_math\(.*\),$", README, re.MULTILINE)
    assert f"    {row}\n" in (ROOT / "thunder_fuser" / "ops" / "unary.py").read_text()


@pytest.mark.skipif(torch.cuda.is_available(), reason="with a GPU no CPU tensor is claimed")
def test_its_limits_are_those_of_the_code() -> None:
    def program(x: torch.Tensor, target: torch.Tensor) -> tuple[torch.Tensor, ...]:
        norm = torch.nn.functional.layer_norm(x, x.shape[-1:])
        loss = torch.nn.functional.cross_entropy(x, target)
        return norm, loss, torch.cumprod(torch.cumsum(norm, 0), 0), torch.sort(norm)[1]

    jfn = thunder.jit(program, executors=[fuser], fuser_evaluator=True)
    jfn(torch.randn(45, 50), torch.randint(0, 50, (45,)))
    outside = re.findall(r"outside: (.*?)(?:  \(|$)", explain(jfn).split("\n\n")[0], re.MULTILINE)
    assert {"no rule for sort", "no rule for cumprod"} <= set(outside)
    claimed = ("layer_norm", "cross_entropy", "cumsum")
    assert not any(name in reason for reason in outside for name in claimed)
