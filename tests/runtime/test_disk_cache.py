"""The acceptance list of the kernel cache, point by point."""

import errno
import multiprocessing
import os
import stat
import tempfile
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import filelock
import pytest

from tests.runtime.cached import KEY, cache, entry, expect_off, file_of, never
from thunder_fuser.options import Options
from thunder_fuser.runtime import cache_directory
from thunder_fuser.runtime.cache_entry import (
    Entry,
    Metadata,
    cache_key,
    decode,
    encode,
)
from thunder_fuser.runtime.disk_cache import DiskCache, disk_cache

__all__ = ["cache"]  # a fixture


# The file


def test_entry_survives_the_disk(cache: DiskCache) -> None:
    built, found = cache.fetch(KEY, entry)
    assert (built, found) == (entry(), False)
    assert DiskCache(cache.directory.parent).fetch(KEY, never) == (entry(), True)


def test_directory_and_file_are_private(cache: DiskCache) -> None:
    cache.put(KEY, entry())
    for path in (cache.directory.parent, cache.directory):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700
    assert stat.S_IMODE(file_of(cache).stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("damage", "fault"),
    [
        (lambda data: data[:20], "truncated"),
        (lambda data: data[:-5], "bytes long"),
        (lambda data: b"", "truncated"),
        (lambda data: data[:70] + bytes([data[70] ^ 4]) + data[71:], "checksum"),
        (lambda data: data[:6] + b"\x09" + data[7:], "another format"),
        (lambda data: encode(entry(cache_key("text", (), "sm_90", ""))), "another key"),
    ],
    ids=["header cut", "tail cut", "empty", "flipped bit", "other version", "other arch"],
)
def test_damaged_entry_is_dropped_and_built_again(
    cache: DiskCache, damage: Callable[[bytes], bytes], fault: str
) -> None:
    cache.put(KEY, entry())
    file_of(cache).write_bytes(damage(file_of(cache).read_bytes()))
    with pytest.warns(RuntimeWarning, match=fault):
        assert cache.fetch(KEY, entry) == (entry(), False)
    assert cache.statistics().corrupt == 1
    assert cache.fetch(KEY, never) == (entry(), True)


def test_verify_names_and_drops_the_bad_entries(cache: DiskCache) -> None:
    other = cache_key("other", (), "sm_90a", "")
    cache.put(KEY, entry())
    cache.put(other, entry(other))
    file_of(cache, other).write_bytes(b"nonsense")
    assert cache.verify() == {other: "truncated to 8 bytes"}
    assert cache.verify() == {}
    assert cache.get(KEY) == entry()


# The place


def test_default_place_is_the_users_cache_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    of_disk_cache = "thunder_fuser.runtime.disk_cache.default_directory"
    monkeypatch.setattr(of_disk_cache, cache_directory.default_directory)  # as it is outside tests
    monkeypatch.setenv("XDG_CACHE_HOME", "/home/someone/.cache")
    assert disk_cache(Options()).directory == Path("/home/someone/.cache/thunder_fuser/v1")


def test_equal_options_share_one_cache(tmp_path: Path) -> None:
    options = Options(cache_dir=str(tmp_path))
    assert disk_cache(options) is disk_cache(Options(cache_dir=str(tmp_path), strict=True))
    assert disk_cache(options) is not disk_cache(Options(cache_dir=str(tmp_path), cache="ro"))


# Modes


def test_read_only_mode_touches_nothing(cache: DiskCache) -> None:
    other = cache_key("other", (), "sm_90a", "")
    cache.put(KEY, entry())
    file_of(cache, other).write_bytes(b"nonsense")
    before = {path: path.stat().st_mtime_ns for path in cache.directory.parent.rglob("*")}
    shared = DiskCache(cache.directory.parent, "ro")
    assert shared.fetch(KEY, never) == (entry(), True)
    with pytest.warns(RuntimeWarning, match="truncated"):
        assert shared.fetch(other, lambda: entry(other)) == (entry(other), False)
    assert (shared.clear(), shared.prune(0)) == (0, 0)
    assert before == {path: path.stat().st_mtime_ns for path in cache.directory.parent.rglob("*")}


def test_read_only_mode_accepts_a_directory_of_root(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put(KEY, entry())
    monkeypatch.setattr(cache_directory, "ROOT_USER", os.geteuid())
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert DiskCache(cache.directory.parent, "ro").get(KEY) == entry()


def test_read_only_mode_without_a_directory_is_silent(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert DiskCache(tmp_path / "none", "ro").fetch(KEY, entry) == (entry(), False)
    assert not (tmp_path / "none").exists()


def test_read_only_mode_does_without_a_directory_that_has_no_place() -> None:
    expect_off(DiskCache(Path("/", "a" * 300), "ro"), "File name too long")


def test_off_neither_reads_nor_writes(cache: DiskCache) -> None:
    cache.put(KEY, entry())
    off = DiskCache(cache.directory.parent, "off")
    assert off.get(KEY) is None
    assert off.statistics().entries == 0


# Failures of the system


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.ESTALE])
@pytest.mark.parametrize("call", ["mkstemp", "fsync", "replace"])
def test_failed_write_is_a_miss_with_one_warning(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch, call: str, code: int
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(tempfile if call == "mkstemp" else os, call, fail)
    with pytest.warns(RuntimeWarning, match=os.strerror(code)) as warned:
        built = [cache.fetch(KEY, entry) for _ in range(3)]
    assert built == [(entry(), False)] * 3
    assert len(warned) == 1
    assert cache.statistics().failures == 3
    assert [path for path in cache.directory.iterdir() if path.is_file()] == []


@pytest.mark.parametrize("code", [errno.ESTALE, errno.EBUSY, errno.EIO])
def test_failed_read_is_a_miss_with_one_warning(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    cache.put(KEY, entry())
    real = os.open

    def fail(path: str, *rest: int, **named: int) -> int:
        if str(path).endswith(".kernel"):
            raise OSError(code, os.strerror(code))
        return real(path, *rest, **named)

    monkeypatch.setattr(os, "open", fail)
    with pytest.warns(RuntimeWarning, match=os.strerror(code)) as warned:
        found = [cache.get(KEY) for _ in range(2)]
    assert found == [None, None]
    assert len(warned) == 1


@pytest.mark.parametrize("error", [OSError(errno.ENOLCK, "No locks available"), None])
def test_lock_that_cannot_be_had_costs_a_build_and_no_error(
    cache: DiskCache, monkeypatch: pytest.MonkeyPatch, error: OSError | None
) -> None:
    def fail(self: filelock.FileLock) -> None:
        raise error or filelock.Timeout("the.lock")

    monkeypatch.setattr(filelock.FileLock, "acquire", fail)
    with pytest.warns(RuntimeWarning, match="cannot lock"):
        assert cache.fetch(KEY, entry) == (entry(), False)
    assert cache.get(KEY) == entry()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_directory_is_still_read(cache: DiskCache) -> None:
    cache.put(KEY, entry())
    cache.directory.chmod(0o500)
    other = cache_key("other", (), "sm_90a", "")
    assert cache.get(KEY) == entry()
    with pytest.warns(RuntimeWarning, match="Permission denied"):
        assert cache.fetch(other, lambda: entry(other)) == (entry(other), False)


def test_failed_build_is_raised_and_never_stored(cache: DiskCache) -> None:
    def fail() -> Entry:
        raise ValueError("no such instruction")

    for _ in range(2):
        with pytest.raises(ValueError, match="no such instruction"):
            cache.fetch(KEY, fail)
    assert cache.statistics().entries == 0
    assert cache.fetch(KEY, entry) == (entry(), False)


def test_killed_writer_leaves_nothing_that_is_read(cache: DiskCache) -> None:
    processes = multiprocessing.get_context("fork")
    is_writing = processes.Event()

    def stop(handle: int) -> None:
        is_writing.set()
        time.sleep(60)

    def write() -> None:
        os.fsync = stop
        large = Entry(Metadata(KEY, "k", "", "", (), ""), b"x" * 100000)
        DiskCache(cache.directory.parent).fetch(KEY, lambda: large)

    writer = processes.Process(target=write)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
        writer.start()
    assert is_writing.wait(60)
    writer.kill()
    writer.join()
    left = list(cache.directory.glob(".tmp-*"))
    assert len(left) == 1
    assert cache.get(KEY) is None
    assert cache.fetch(KEY, entry) == (entry(), False)  # the lock died with its holder
    cache.prune()
    assert left[0].exists()  # it could still have a writer
    os.utime(left[0], (time.time() - 7200,) * 2)
    cache.prune()
    assert not left[0].exists()


# Many at once


def test_sixteen_threads_build_once(cache: DiskCache) -> None:
    built: list[int] = []
    results: list[tuple[Entry, bool]] = []
    together = threading.Barrier(16)

    def build() -> Entry:
        built.append(1)
        time.sleep(0.1)
        return entry()

    def ask() -> None:
        together.wait()
        results.append(cache.fetch(KEY, build))

    threads = [threading.Thread(target=ask) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(built) == 1
    assert {result for result, _ in results} == {entry()}
    assert [found for _, found in results].count(False) == 1
    assert len(results) == 16


def test_threads_that_wait_for_a_failed_build_see_its_error(cache: DiskCache) -> None:
    together, errors = threading.Barrier(4), []

    def fail() -> Entry:
        time.sleep(0.1)
        raise ValueError("refused")

    def ask() -> None:
        together.wait()
        try:
            cache.fetch(KEY, fail)
        except ValueError as error:
            errors.append(str(error))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == ["refused"] * 4


def test_eight_processes_build_once(cache: DiskCache) -> None:
    processes = multiprocessing.get_context("fork")
    all_are_here, said = processes.Barrier(8), processes.SimpleQueue()

    def build() -> Entry:
        time.sleep(0.5)
        return entry()

    def fetch() -> None:
        warnings.simplefilter("error")
        all_are_here.wait()
        got, found = DiskCache(cache.directory.parent).fetch(KEY, build)
        assert got == entry()
        said.put("found" if found else "built")

    children = [processes.Process(target=fetch) for _ in range(8)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
        for child in children:
            child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * 8
    assert sorted(said.get() for _ in children) == ["built"] + ["found"] * 7


def test_forked_child_does_not_wait_for_its_parents_threads(cache: DiskCache) -> None:
    started, leave = threading.Event(), threading.Event()

    def build() -> Entry:
        started.set()
        leave.wait()
        return entry()

    thread = threading.Thread(target=lambda: cache.fetch(KEY, build))
    thread.start()
    started.wait()
    other = cache_key("other", (), "sm_90a", "")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads: the point
        child = os.fork()
    if child == 0:
        os._exit(0 if cache.fetch(other, lambda: entry(other))[0] == entry(other) else 1)
    try:
        assert os.waitpid(child, 0)[1] == 0
    finally:
        leave.set()
        thread.join()


# Size


def test_least_recently_used_entries_go_first(cache: DiskCache) -> None:
    keys = [cache_key(f"text {n}", (), "sm_90a", "") for n in range(5)]
    for age, key in enumerate(keys):
        cache.put(key, entry(key, b"x" * 1000))
        os.utime(file_of(cache, key), (1e9 + age, 1e9 + age))
    assert cache.get(keys[0]) is not None  # now the most recent
    size = cache.statistics().bytes
    freed = cache.prune(size * 3 // 5)
    assert freed == size * 2 // 5
    assert [cache.get(key) is not None for key in keys] == [True, False, False, True, True]


def test_writing_keeps_the_directory_below_its_limit(tmp_path: Path) -> None:
    cache = DiskCache(tmp_path / "cache", max_bytes=20_000)
    for n in range(60):
        key = cache_key(f"text {n}", (), "sm_90a", "")
        cache.put(key, entry(key, b"x" * 1000))
        assert cache.statistics().bytes <= 20_000
    assert cache.statistics().entries > 8


def test_reader_keeps_an_entry_that_is_pruned_under_it(cache: DiskCache) -> None:
    cache.put(KEY, entry())
    with file_of(cache).open("rb") as reader:
        assert cache.clear() > 0
        assert decode(reader.read(), KEY) == entry()
    assert cache.get(KEY) is None


def test_statistics_count_what_happened(cache: DiskCache) -> None:
    cache.fetch(KEY, entry)
    cache.fetch(KEY, never)
    cache.get(cache_key("other", (), "", ""))
    now = cache.statistics()
    assert (now.hits, now.misses, now.writes, now.corrupt, now.failures) == (1, 2, 1, 0, 0)
    assert (now.entries, now.bytes) == (1, len(encode(entry())))
