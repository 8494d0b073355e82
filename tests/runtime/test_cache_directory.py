"""Directories and files that somebody else could have written are not trusted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.runtime.cached import KEY, cache, entry, expect_off, file_of, never
from thunder_fuser.runtime.disk_cache import DiskCache

__all__ = ["cache"]  # a fixture


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_directory_that_others_can_write_is_not_used(cache: DiskCache, mode: int) -> None:
    cache.put(KEY, entry())
    cache.directory.chmod(mode)
    expect_off(DiskCache(cache.directory.parent), "can be written by others")


def test_symbolic_link_is_not_used(cache: DiskCache, tmp_path: Path) -> None:
    cache.put(KEY, entry())
    (tmp_path / "link").symlink_to(cache.directory.parent)
    expect_off(DiskCache(tmp_path / "link"), "is a symbolic link")


def test_directory_of_another_user_is_not_used(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(KEY, entry())
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    expect_off(DiskCache(cache.directory.parent), "belongs to user")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
def test_directory_that_was_given_away_is_not_used(cache: DiskCache) -> None:
    cache.put(KEY, entry())
    os.chown(cache.directory, 65534, 65534)
    expect_off(DiskCache(cache.directory.parent), "belongs to user 65534")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_entry_of_another_user_is_dropped(cache: DiskCache) -> None:
    cache.put(KEY, entry())
    os.chown(file_of(cache), 65534, 65534)
    with pytest.warns(RuntimeWarning, match="a file that belongs to user 65534"):
        assert cache.fetch(KEY, entry) == (entry(), False)
    assert cache.fetch(KEY, never) == (entry(), True)


def test_plain_file_in_the_place_of_the_directory_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    expect_off(DiskCache(tmp_path / "file"), "running without the kernel cache")


def test_relative_place_is_not_used() -> None:
    expect_off(DiskCache(Path("cache")), "not an absolute path")


def test_directory_that_cannot_be_made_is_not_used(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(self: Path, *_: object, **__: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    expect_off(cache, "Permission denied")


def test_entry_that_is_a_symbolic_link_is_dropped(cache: DiskCache, tmp_path: Path) -> None:
    cache.put(KEY, entry())
    file_of(cache).rename(tmp_path / "elsewhere")
    file_of(cache).symlink_to(tmp_path / "elsewhere")
    with pytest.warns(RuntimeWarning, match="symbolic link"):
        assert cache.get(KEY) is None
    assert not file_of(cache).is_symlink()
    assert (tmp_path / "elsewhere").exists()


def test_entry_that_is_a_pipe_is_dropped_and_not_waited_for(cache: DiskCache) -> None:
    cache.put(KEY, entry())
    file_of(cache).unlink()
    os.mkfifo(file_of(cache), 0o600)
    with pytest.warns(RuntimeWarning, match="not a plain file"):
        assert cache.get(KEY) is None
    assert not file_of(cache).exists()


def test_entry_that_others_can_write_is_dropped(cache: DiskCache) -> None:
    cache.put(KEY, entry())
    file_of(cache).chmod(0o666)
    with pytest.warns(RuntimeWarning, match="can be written by others"):
        assert cache.get(KEY) is None
