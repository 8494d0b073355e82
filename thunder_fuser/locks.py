"""Locks that a forked child finds open: the thread of its parent that held one is not in it.

What a lock guards may be half done in the child then, so it guards what is right at every step.
"""

from __future__ import annotations

import os
from threading import Lock, RLock
from typing import TypeVar
from weakref import WeakSet

_Lock = TypeVar("_Lock")
_ALL: WeakSet[object] = WeakSet()


def new_lock() -> Lock:
    """A new lock."""
    return _noted(Lock())


def new_reentrant_lock() -> RLock:
    """A new lock that its holder may take again."""
    return _noted(RLock())


def _noted(made: _Lock) -> _Lock:
    _ALL.add(made)
    return made


def _open_all() -> None:
    for one in tuple(_ALL):
        one._at_fork_reinit()  # type: ignore[attr-defined]  # as `logging` does


os.register_at_fork(after_in_child=_open_all)
