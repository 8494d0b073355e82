"""The directory of the kernel cache: private, ours, checked before anything in it is trusted."""

from __future__ import annotations

import os
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import platformdirs

ROOT_USER = 0
TEMPORARY = ".tmp-"  # how the names of unfinished files begin
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
# Without O_NONBLOCK the opening of a pipe waits for a writer.
_READ_AT_ONCE = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


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
    _require_owner(found, str(directory), may_belong_to_root=may_belong_to_root)


def read_trusted(path: Path, *, may_belong_to_root: bool) -> bytes:
    """The bytes of a plain file that only this user (or root) can write.

    Raises Untrusted, which reads after "it is", or OSError.
    """
    if path.is_symlink():
        raise Untrusted("a symbolic link")
    handle = os.open(path, _READ_AT_ONCE)
    with os.fdopen(handle, "rb") as file:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise Untrusted("not a plain file")
        _require_owner(found, "a file that", may_belong_to_root=may_belong_to_root)
        return file.read()


def write_atomically(path: Path, data: bytes) -> None:
    """Make `path` hold `data`; at no time does it hold a part. Raises OSError."""
    handle, temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise


def _require_owner(found: os.stat_result, name: str, *, may_belong_to_root: bool) -> None:
    """Raise Untrusted unless `found` belongs to this user and is closed to other writers."""
    trusted = {os.geteuid(), ROOT_USER} if may_belong_to_root else {os.geteuid()}
    if found.st_uid not in trusted:
        raise Untrusted(f"{name} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & _OTHERS_MAY_WRITE:
        raise Untrusted(f"{name} can be written by others (mode {stat.S_IMODE(found.st_mode):o})")
