"""The directory of the kernel cache: private, ours, checked before anything in it is trusted."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import platformdirs

ROOT_USER = 0
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


class Untrusted(Exception):
    """Somebody else could have written what lies there; the text says who or how."""


def default_directory() -> Path:
    """The user's cache directory. Never the system's temporary one, whose names can be guessed."""
    return Path(platformdirs.user_cache_dir("thunder_fuser", appauthor=False))


def create_private(directory: Path) -> None:
    """Create `directory` and what is missing above it, open to this user only. Raises OSError."""
    missing = [path for path in (directory, *directory.parents) if not path.exists()]
    for path in reversed(missing):
        path.mkdir(mode=0o700, exist_ok=True)


def require_private(directory: Path, *, may_belong_to_root: bool) -> None:
    """Raise Untrusted unless only this user (or root, for a shared cache) can write `directory`.

    Raises OSError where the directory cannot be looked at.
    """
    found = os.lstat(directory)
    if stat.S_ISLNK(found.st_mode):
        raise Untrusted(f"{directory} is a symbolic link")
    if not stat.S_ISDIR(found.st_mode):
        raise Untrusted(f"{directory} is not a directory")
    require_owner(found, str(directory), may_belong_to_root=may_belong_to_root)


def require_owner(found: os.stat_result, name: str, *, may_belong_to_root: bool) -> None:
    """Raise Untrusted unless `found` belongs to this user and is closed to other writers."""
    trusted = {os.geteuid(), ROOT_USER} if may_belong_to_root else {os.geteuid()}
    if found.st_uid not in trusted:
        raise Untrusted(f"{name} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & _OTHERS_MAY_WRITE:
        raise Untrusted(f"{name} can be written by others (mode {stat.S_IMODE(found.st_mode):o})")
