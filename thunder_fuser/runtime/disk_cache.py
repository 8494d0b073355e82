"""Compiled kernels on disk: verified on read, written atomically, built once per machine.

A cache never makes a program fail: whatever goes wrong with the directory or a file is a miss and
one warning. `cuda.core`'s FileStreamProgramCache is not wrapped, because it breaks rules that this
cache has to keep: it returns truncated or damaged files as they are, follows the umask, and asks
nobody who owns the directory; beneath those checks nothing but its `os.replace` would be left.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from threading import Lock

from filelock import FileLock, Timeout

from thunder_fuser.options import Options
from thunder_fuser.runtime.cache_directory import (
    TEMPORARY,
    Untrusted,
    create_private,
    default_directory,
    read_trusted,
    require_private,
    write_atomically,
)
from thunder_fuser.runtime.cache_entry import FORMAT, CorruptEntry, Entry, decode, encode
from thunder_fuser.runtime.single_flight import SingleFlight

LOCK_SECONDS = 60.0  # longer than any compilation; after that a second one is the lesser evil
STALE_SECONDS = 3600.0  # a temporary file this old has lost its writer
PRUNE_TO = 0.8  # of the limit, so that not every write prunes

_SUFFIX = ".kernel"


@dataclass(frozen=True)
class CacheStatistics:
    """What this process did with the cache, and what lies on disk now."""

    hits: int = 0
    misses: int = 0
    writes: int = 0
    corrupt: int = 0
    failures: int = 0  # reads, writes and locks that the system refused
    entries: int = 0
    bytes: int = 0


class DiskCache:
    """The entries below `root`. `mode` is `rw`, `ro` (never touches the disk) or `off`.

    Safe for any number of threads and processes. No method raises for the state of the disk.
    """

    def __init__(self, root: Path, mode: str = "rw", max_bytes: int = 2 << 30) -> None:
        self.directory = root / f"v{FORMAT}"
        self.max_bytes = max_bytes
        self._root = root
        self._asked_mode = mode
        self._mode: str | None = None
        self._lock = Lock()
        self._flights: SingleFlight[tuple[Entry, bool]] = SingleFlight()
        self._statistics = CacheStatistics()
        self._warned: set[str] = set()
        self._bytes: int | None = None

    @property
    def mode(self) -> str:
        """The mode in use: `off` where the directory may not be trusted or cannot be made."""
        if self._mode is None:
            with self._lock:
                self._mode = self._mode or self._open()
        return self._mode

    def fetch(self, key: str, build: Callable[[], Entry]) -> tuple[Entry, bool]:
        """The entry of `key` and whether it was there; if not, `build()` made it.

        Threads and processes that ask at once wait for one build. What `build` raises is raised
        to all of them, and nothing is stored.
        """
        (entry, found), leads = self._flights.run(key, lambda: self._fetch(key, build))
        return entry, found or not leads

    def get(self, key: str) -> Entry | None:
        """The verified entry of `key`, or None."""
        if self.mode == "off":
            return None
        found = self._read(key)
        self._count(**{"misses" if found is None else "hits": 1})
        return found

    def put(self, key: str, entry: Entry) -> None:
        """Store an entry, then keep the directory within its size limit."""
        if self.mode != "rw":
            return
        data = encode(entry)
        try:
            write_atomically(self._path(key), data)
        except OSError as error:
            self._fail("cannot write to the kernel cache", error)
            return
        self._count(writes=1)
        self._keep_size(len(data))

    def rebuild(self, key: str, fault: str, build: Callable[[], Entry]) -> Entry:
        """The entry of `key` made anew and stored, for who found a fault in what was read, which
        reads after "it is"."""
        self._drop(key, fault)
        entry = build()
        self.put(key, entry)
        return entry

    def statistics(self) -> CacheStatistics:
        """Counters of this process and the present size of the directory."""
        sizes = [size for _, size, _ in self._entries()]
        with self._lock:
            return replace(self._statistics, entries=len(sizes), bytes=sum(sizes))

    def entries(self) -> Iterator[Entry]:
        """Every entry that can be read; of those on disk none counts as used."""
        for path, _, _ in list(self._entries()):
            with suppress(OSError, CorruptEntry, Untrusted):
                yield self._decoded(path)

    def verify(self) -> dict[str, str]:
        """Read every entry. Returns key => fault of the bad ones, which are dropped (in `rw`)."""
        return {
            path.stem: fault
            for path, _, _ in list(self._entries())
            if (fault := self._fault(path)) is not None
        }

    def prune(self, max_bytes: int | None = None) -> int:
        """Drop the least recently used entries beyond `max_bytes`. Returns the bytes freed.

        Files that a killed writer left go too. Whoever has an entry open keeps reading it.
        """
        if self.mode != "rw":
            return 0
        limit = self.max_bytes if max_bytes is None else max_bytes
        self._remove_temporaries(older_than=STALE_SECONDS)
        entries = sorted(self._entries(), key=lambda entry: entry[2])
        total = sum(size for _, size, _ in entries)
        freed = 0
        for path, size, _ in entries:
            if total - freed <= limit:
                break
            freed += size if self._unlink(path) else 0
        self._bytes = total - freed
        return freed

    def clear(self) -> int:
        """Drop everything. Returns the bytes freed."""
        if self.mode == "rw":
            self._remove_temporaries(older_than=0.0)
        return self.prune(max_bytes=0)

    def _open(self) -> str:
        mode = self._asked_mode
        try:
            if mode == "off" or (mode == "ro" and not self.directory.exists()):
                return "off"
            if not self._root.is_absolute():
                raise Untrusted(f"{self._root} is not an absolute path")
            if mode == "rw":
                create_private(self.directory)
            for directory in (self._root, self.directory):
                require_private(directory, may_belong_to_root=mode == "ro")
        except (OSError, Untrusted) as error:
            self._warn("open", f"running without the kernel cache: {error}")
            return "off"
        return mode

    def _fetch(self, key: str, build: Callable[[], Entry]) -> tuple[Entry, bool]:
        found = self.get(key)
        if found is not None:
            return found, True
        if self.mode != "rw":
            return build(), False
        with self._alone(key) as waited:
            found = self._read(key) if waited else None
            if found is not None:
                return found, True
            entry = build()
            self.put(key, entry)
            return entry, False

    @contextmanager
    def _alone(self, key: str) -> Iterator[bool]:
        """Hold the lock of `key` across processes. It saves work; losing it is never an error."""
        lock: FileLock | None = None
        try:
            locks = self.directory / "locks"
            locks.mkdir(mode=0o700, exist_ok=True)
            # 256 lock files for all keys: they are never deleted, so they have to stay few.
            lock = FileLock(str(locks / f"{key[:2]}.lock"), timeout=LOCK_SECONDS)
            lock.acquire()
        except (OSError, NotImplementedError, Timeout) as error:
            lock = None
            self._fail("cannot lock the kernel cache", error)
        try:
            yield lock is not None
        finally:
            if lock is not None:
                with suppress(OSError):
                    lock.release()

    def _path(self, key: str) -> Path:
        return self.directory / f"{key}{_SUFFIX}"

    def _read(self, key: str) -> Entry | None:
        path = self._path(key)
        try:
            entry = self._decoded(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._fail("cannot read the kernel cache", error)
            return None
        except (CorruptEntry, Untrusted) as error:
            self._drop(key, error)
            return None
        if self.mode == "rw":
            with suppress(OSError):
                os.utime(path)  # least recently *used* goes first
        return entry

    def _drop(self, key: str, fault: object) -> None:
        path = self._path(key)
        self._count(corrupt=1)
        self._warn("corrupt", f"dropped {path}: it is {fault}")
        self._unlink(path)

    def _decoded(self, path: Path) -> Entry:
        return decode(read_trusted(path, may_belong_to_root=self.mode == "ro"), path.stem)

    def _fault(self, path: Path) -> str | None:
        try:
            self._decoded(path)
        except (CorruptEntry, Untrusted) as error:
            self._unlink(path)
            return str(error)
        except OSError as error:
            return str(error)
        return None

    def _entries(self) -> Iterator[tuple[Path, int, float]]:
        """Path, bytes and last use of every entry."""
        if self.mode == "off":
            return
        try:
            for item in os.scandir(self.directory):
                if item.name.endswith(_SUFFIX):
                    with suppress(FileNotFoundError):  # pruned by another process
                        found = item.stat(follow_symlinks=False)
                        yield Path(item.path), found.st_size, found.st_mtime
        except OSError as error:
            self._fail("cannot list the kernel cache", error)

    def _keep_size(self, added: int) -> None:
        if self._bytes is None:
            self._bytes = sum(size for _, size, _ in self._entries())
        else:
            self._bytes += added
        if self._bytes > self.max_bytes:
            self.prune(int(self.max_bytes * PRUNE_TO))

    def _remove_temporaries(self, older_than: float) -> None:
        with suppress(OSError):
            for item in os.scandir(self.directory):
                if item.name.startswith(TEMPORARY):
                    with suppress(OSError):
                        if time.time() - item.stat(follow_symlinks=False).st_mtime >= older_than:
                            os.unlink(item.path)

    def _unlink(self, path: Path) -> bool:
        if self.mode != "rw":
            return False
        with suppress(OSError):
            path.unlink()
            return True
        return False

    def _count(self, **added: int) -> None:
        with self._lock:
            now = {name: getattr(self._statistics, name) + n for name, n in added.items()}
            self._statistics = replace(self._statistics, **now)

    def _fail(self, what: str, error: Exception) -> None:
        self._count(failures=1)
        self._warn("failure", f"{what}: {error}")

    def _warn(self, kind: str, message: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            warnings.warn(f"{message} (said once)", RuntimeWarning, stacklevel=2)


@lru_cache(maxsize=64)
def _shared(root: Path, mode: str, max_bytes: int) -> DiskCache:
    return DiskCache(root, mode, max_bytes)


def disk_cache(options: Options) -> DiskCache:
    """The cache that `options` name; equal options share one, and its counters."""
    root = Path(options.cache_dir) if options.cache_dir else default_directory()
    return _shared(root, options.cache, options.cache_max_bytes)


# A forked child must not wait for locks that other threads of its parent held.
os.register_at_fork(after_in_child=_shared.cache_clear)
