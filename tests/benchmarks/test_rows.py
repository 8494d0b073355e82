"""What rows say of the place where they were measured."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import torch

from benchmarks import rows
from benchmarks.rows import Environment

TOLD = "0123456789abcdef0123456789abcdef01234567"


@pytest.fixture
def dirty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The commit of a repository with a changed file, in which the benchmarks lie."""
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    monkeypatch.delenv("GIT_COMMIT", raising=False)
    (tmp_path / "file").write_text("committed")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", "file")
    git(tmp_path, "-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "First")
    (tmp_path / "file").write_text("changed")
    return git(tmp_path, "rev-parse", "HEAD")


def git(directory: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", *arguments], cwd=directory, capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


def found() -> Environment:
    return rows.environment(torch.device("cpu"), "python -m benchmarks", "a run", None)


def test_git_says_the_commit_and_that_a_file_was_changed(dirty: str) -> None:
    assert (found().git_sha, found().git_dirty) == (dirty, True)


def test_a_commit_that_was_told_wins_over_git_and_is_clean(
    dirty: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GIT_COMMIT", TOLD)
    assert (found().git_sha, found().git_dirty) == (TOLD, False)


def test_without_git_and_untold_there_is_no_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    monkeypatch.delenv("GIT_COMMIT", raising=False)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    assert (found().git_sha, found().git_dirty) == ("none", False)
