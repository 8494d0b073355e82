"""`bench`, `report` and `compare` run what the checkout holds, or say where it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from thunder_fuser.cli import hand_over
from thunder_fuser.cli.main import main

PRINTS = "import os, sys; print(os.getcwd(), sys.argv[1:]); sys.exit(3)"


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """As if from a wheel, with the current directory somewhere else."""
    monkeypatch.setattr(hand_over, "_REPOSITORY", tmp_path / "site-packages")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("words", "module", "arguments"),
    [
        (["bench", "--quick", "--help"], "benchmarks", ["--quick", "--help"]),
        (["report", "rows.jsonl"], "reports", ["rows.jsonl"]),
        (["compare", "a", "b"], "reports", ["compare", "a", "b"]),
    ],
)
def test_arguments_and_exit_status_are_handed_on(
    words: list[str],
    module: str,
    arguments: list[str],
    installed: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    (installed / "pyproject.toml").write_text('name = "thunder-fuser"\n')
    (installed / module).mkdir()
    (installed / module / "__init__.py").touch()
    (installed / module / "__main__.py").write_text(PRINTS)
    assert main(words) == 3
    assert capfd.readouterr().out == f"{installed} {arguments}\n"


def test_without_a_checkout_it_says_so(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--quick"]) == 2
    assert "thunder_fuser bench: `benchmarks` is not part of the installed package" in (
        capsys.readouterr().err
    )


def test_somebody_elses_benchmarks_are_not_taken(installed: Path) -> None:
    (installed / "benchmarks").mkdir()
    (installed / "benchmarks" / "__main__.py").write_text(PRINTS)
    assert hand_over.checkout("benchmarks") is None
    (installed / "pyproject.toml").write_text('name = "other"\n')
    assert hand_over.checkout("benchmarks") is None


def test_this_checkout_is_found_from_anywhere(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    for module in ("benchmarks", "reports"):
        found = hand_over.checkout(module)
        assert found is not None
        assert (found / module / "__main__.py").exists()
