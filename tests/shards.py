"""A part of the tests, for several processes that share them: compute-sanitizer slows a test down a
hundredfold, and each of its processes checks one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

import pytest

T = TypeVar("T")


def shard(items: Sequence[T], part: str) -> list[T]:
    """Every n-th item from the k-th on, of a `part` k/n. Raises pytest.UsageError for another."""
    found = re.fullmatch(r"(\d+)/(\d+)", part)
    first, count = map(int, found.groups()) if found else (0, 0)
    if not 1 <= first <= count:
        raise pytest.UsageError(f"--shard {part}: a part is k/n with k from 1 to n, such as 3/20")
    return list(items[first - 1 :: count])
