"""A cache of kernels in a directory of its own, and what tests put there."""

from __future__ import annotations

from pathlib import Path

import pytest

from thunder_fuser.runtime.cache_entry import Entry, Metadata, cache_key
from thunder_fuser.runtime.disk_cache import DiskCache

KEY = cache_key("text", ("-O1",), "sm_90a", "nvrtc 13.0")


def entry(key: str = KEY, payload: bytes = b"\x7fELF machine code") -> Entry:
    return Entry(Metadata(key, "k", "sm_90a", "nvrtc 13.0", ("-O1",), "0.1.0", 32, 0), payload)


def never() -> Entry:
    raise AssertionError("built although it was cached")


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


def file_of(cache: DiskCache, key: str = KEY) -> Path:
    return cache.directory / f"{key}.kernel"


def expect_off(cache: DiskCache, reason: str) -> None:
    """The cache warns once, serves nothing, and what is built is right."""
    with pytest.warns(RuntimeWarning, match=reason) as warned:
        built = [cache.fetch(KEY, entry) for _ in range(3)]
    assert built == [(entry(), False)] * 3
    assert len(warned) == 1
    assert cache.mode == "off"
