"""What contests between kernels found, remembered in this process, on disk, or in a file.

    a contest                 for a family of kernels and a kind of GPU, in four classes of sizes
    memory, kernel cache      later plans and processes take its result
    THUNDER_FUSER_TUNED=FILE  results from elsewhere, which come before all others

`python -m thunder_fuser cache tuned --json` prints what the cache holds in the form of such a file.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path

import msgspec

from thunder_fuser.kernel.source import Source
from thunder_fuser.options import Options
from thunder_fuser.runtime.cache_entry import Entry, Metadata, cache_key, package_version
from thunder_fuser.runtime.disk_cache import DiskCache, disk_cache
from thunder_fuser.runtime.recent import Recent
from thunder_fuser.target import Target

MAX_CHOICES = 4096  # remembered in memory
MAX_SIZE = 40  # the last class: 2^39 bytes and more
MAX_CONTESTS = 4  # about one subject, whose sizes are not to make ever more kernels
NAME = "choice"  # how these entries are told from kernels

_KIND = "thunder_fuser choice 3"  # stands for a compiler in the entry and its key


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters that were fastest, and the microseconds of all that were timed, by their
    text. The model's are the first."""

    key: str
    device: str
    parameters: str
    microseconds: dict[str, float]

    def __str__(self) -> str:
        preferred, *_ = self.microseconds.values()
        times = f"{self.microseconds[self.parameters]} us, the model's {preferred}"
        return f"{self.parameters}: {times}, of {len(self.microseconds)}, {self.device}"


class _File(msgspec.Struct, frozen=True):
    choices: list[Choice]


@dataclass(frozen=True)
class Subject:
    """What contests are about: the text that the model prefers, whatever its integer literals, on
    a kind of GPU."""

    source: Source
    target: Target
    device: str

    def key(self, size: int) -> str:
        """The key of a contest over kernels of that class of sizes: 64 hexadecimal digits."""
        source = self.source
        text = "\0".join((*source.fragments, str(source.threads), str(source.parameters)))
        flags = (repr(self.target), self.device, str(size))
        return cache_key(text, flags, self.target.arch, _KIND)


def size_class(moved: int) -> int:
    """Equal for bytes moved that differ by less than a factor of 2, most of the time."""
    return min(moved.bit_length(), MAX_SIZE)


class Choices:
    """The choices of this process. Safe for several threads."""

    def __init__(self) -> None:
        self.clear()

    def clear(self) -> None:
        """Forget what is in memory."""
        self._known: Recent[str, Choice] = Recent(MAX_CHOICES)

    def find(self, subject: Subject, size: int, options: Options) -> Choice | None:
        """The choice for a class of sizes. Those for others say little about it: one that won
        by 3 % for 16,384 positions lost 5 % for 32,768."""
        return self._of_key(subject.key(size), options)

    def is_open(self, subject: Subject, options: Options) -> bool:
        """True where another contest about `subject` may be held."""
        known = (self._of_key(subject.key(size), options) for size in range(MAX_SIZE + 1))
        return len(list(islice(filter(None, known), MAX_CONTESTS))) < MAX_CONTESTS

    def _of_key(self, key: str, options: Options) -> Choice | None:
        """From the file that `options.tuned` names and, unless tuning is off, memory or disk."""
        if options.tuned is not None and (pinned := read_file(options.tuned).get(key)) is not None:
            return pinned
        if options.tune == "off":
            return None
        return self._known.get(key) or self._stored(key, options)

    def keep(self, choice: Choice, options: Options) -> None:
        """Remember the result of a contest."""
        self._known.keep(choice.key, choice)
        described = Metadata(choice.key, NAME, choice.device, _KIND, (), package_version())
        disk_cache(options).put(choice.key, Entry(described, msgspec.json.encode(choice)))

    def _stored(self, key: str, options: Options) -> Choice | None:
        entry = disk_cache(options).get(key)
        found = None if entry is None else _decoded(entry)
        return None if found is None else self._known.keep(key, found)


CHOICES = Choices()


def choices_of(cache: DiskCache) -> list[Choice]:
    """Those on disk, by their keys."""
    found = (_decoded(entry) for entry in cache.entries() if entry.metadata.name == NAME)
    return sorted(filter(None, found), key=lambda choice: choice.key)


def read_file(path: str) -> Mapping[str, Choice]:
    """The choices of a file by their keys. One that cannot be used is none, and a warning."""
    try:
        changed = os.stat(path).st_mtime_ns
    except OSError as error:
        return _unusable(path, str(error))
    return _read(path, changed)


@lru_cache(maxsize=8)
def _read(path: str, changed: int) -> Mapping[str, Choice]:
    try:
        found = msgspec.json.decode(Path(path).read_bytes(), type=_File)
    except (OSError, msgspec.MsgspecError) as error:
        return _unusable(path, str(error))
    return {choice.key: choice for choice in found.choices}


@lru_cache(maxsize=8)
def _unusable(path: str, why: str) -> Mapping[str, Choice]:
    warnings.warn(
        f"tuned={path} cannot be used ({why}); write it with "
        "`python -m thunder_fuser cache tuned --json`; kernels are chosen without it",
        RuntimeWarning,
        stacklevel=2,
    )
    return {}


def _decoded(entry: Entry) -> Choice | None:
    try:
        return msgspec.json.decode(entry.payload, type=Choice)
    except msgspec.MsgspecError:
        return None
