"""Say how far a long compilation is: nothing before two seconds have passed.

    thunder_fuser: 12/30 kernels ready, 8 from the cache

On a terminal one line that is written over; elsewhere a line every ten seconds.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from threading import Lock
from typing import TextIO

QUIET_SECONDS = 2.0
LINE_SECONDS = 10.0


class Progress:
    """The progress of `total` kernels. `mode` is the option: `auto`, `on` (at once) or `off`.

    Of several ranks only the first speaks. Methods may be called from several threads.
    """

    def __init__(
        self,
        total: int,
        mode: str,
        stream: TextIO | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._total, self._stream, self._clock = total, stream or sys.stderr, clock
        self._speaks = mode != "off" and os.environ.get("RANK", "0") == "0"
        self._on_terminal = self._stream.isatty()
        self._pause = QUIET_SECONDS if self._on_terminal else LINE_SECONDS
        self._next = clock() + (0.0 if mode == "on" else self._pause)
        self._ready = self._stored = 0
        self._line = ""
        self._lock = Lock()

    def step(self, was_stored: bool) -> None:
        """One more kernel is ready; it came from the cache or was compiled."""
        with self._lock:
            self._ready += 1
            self._stored += was_stored
            if self._speaks and self._clock() >= self._next:
                self._show()

    def close(self) -> None:
        """End the line on a terminal."""
        with self._lock:
            if self._line and self._on_terminal:
                self._write("\n")

    def _show(self) -> None:
        self._line = (
            f"thunder_fuser: {self._ready}/{self._total} kernels ready, "
            f"{self._stored} from the cache"
        )
        if self._on_terminal:
            self._write(f"\r{self._line}")
        else:
            self._write(f"{self._line}\n")
            self._next = self._clock() + LINE_SECONDS

    def _write(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()
