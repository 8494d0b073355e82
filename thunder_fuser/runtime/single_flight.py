"""One thread does the work for a key, the others wait for its result."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from threading import Lock
from typing import Generic, TypeVar

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """Runs at most one call per key at a time.

    Callers that come while it runs receive its result, or its exception; nothing is remembered
    afterwards. A forked child starts empty: the thread that would have answered is not in it.
    """

    def __init__(self) -> None:
        self._reset()

    def run(self, key: str, work: Callable[[], Result]) -> tuple[Result, bool]:
        """The result of `work()`, and whether it was this call that ran it."""
        if self._process != os.getpid():
            self._reset()
        with self._lock:
            flight = self._flights.get(key)
            leads = flight is None
            if flight is None:
                flight = self._flights[key] = Future()
        if not leads:
            return flight.result(), False
        try:
            flight.set_result(work())
        except BaseException as error:
            flight.set_exception(error)
            raise
        finally:
            with self._lock:
                del self._flights[key]
        return flight.result(), True

    def _reset(self) -> None:
        self._process = os.getpid()
        self._lock = Lock()
        self._flights: dict[str, Future[Result]] = {}
