"""Which functions a script is found to have compiled, and what is said of one that fails."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import pytest
import thunder

from tests.cli.scripts import write_script
from thunder_fuser.cli.script import Ran, run_script
from thunder_fuser.cli.text import WrongCall


def ran(path: Path, body: str, *arguments: str, is_quiet: bool = False) -> Ran:
    script = write_script(path / "script.py", body)
    return run_script(argparse.Namespace(script=script, arguments=list(arguments)), is_quiet)


def test_functions_are_named_by_their_variables(tmp_path: Path) -> None:
    found = ran(
        tmp_path,
        """\
        step = jit(lambda x: torch.tanh(x) * 2)
        step(torch.randn(3))
        never = jit(lambda x: x * 2)
        """,
    )
    assert list(found.functions) == ["step"]
    assert found.status() == 0
    assert found.status(is_good=False) == 1


def test_functions_inside_of_functions_are_found(tmp_path: Path) -> None:
    """Equal names get numbers; a script that leaves through sys.exit(0) came to its end."""
    found = ran(
        tmp_path,
        """\
        def main():
            def step(x): return torch.tanh(x) * 2
            for size in (3, 4):
                jit(step)(torch.randn(size))
            layer = jit(torch.nn.Softplus())
            layer(torch.randn(3))
        main()
        sys.exit(0)
        """,
    )
    assert list(found.functions) == ["step", "step #2", "Softplus"]
    assert found.is_whole


def test_a_failing_script_shows_its_own_frames_and_keeps_what_it_compiled(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ran(
        tmp_path,
        """\
        step = jit(lambda x: torch.tanh(x) * 2)
        step(torch.randn(3))
        {}["missing"]
        """,
    )
    assert list(found.functions) == ["step"]
    assert (found.is_whole, found.status()) == (False, 1)
    said = capsys.readouterr().err
    assert said.startswith(
        f'Traceback (most recent call last):\n  File "{tmp_path}/script.py", line'
    )
    assert said.endswith("KeyError: 'missing'\n")
    assert "runpy" not in said


def test_ctrl_c_ends_the_script_and_no_more(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ran(
        tmp_path,
        """\
        step = jit(lambda x: torch.tanh(x) * 2)
        step(torch.randn(3))
        raise KeyboardInterrupt
        """,
    )
    assert list(found.functions) == ["step"]
    assert found.status() == 1
    assert capsys.readouterr().err == f"{tmp_path}/script.py was interrupted\n"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ('sys.exit("no data")', "script.py stopped: no data"),
        ("x = (", "SyntaxError: '(' was never closed"),
        ("x = 1", "script.py called no function that thunder.jit made"),
    ],
)
def test_it_says_why_there_is_nothing_to_ask(
    body: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = ran(tmp_path, body)
    assert found.status() == 1
    assert message in capsys.readouterr().err


def test_a_missing_script_is_a_wrong_call(tmp_path: Path) -> None:
    missing = argparse.Namespace(script=str(tmp_path / "gone.py"), arguments=[])
    with pytest.raises(WrongCall, match=r"there is no script .*gone\.py"):
        run_script(missing)


def test_the_script_sees_its_arguments_and_prints_to_stderr_when_quiet(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    before = list(sys.argv), list(sys.path), thunder.jit
    ran(tmp_path, "print(sys.argv[1:], sys.path[0])", "--epochs", "1", is_quiet=True)
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(f"['--epochs', '1'] {tmp_path}\n")
    assert (sys.argv, sys.path, thunder.jit) == before
