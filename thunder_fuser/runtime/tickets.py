"""The zeros with which blocks of a launch count each other (`kernel/split_ir.py`).

A kernel leaves them as it found them, so they are zeroed once. What must not happen is that two
launches run at the same time on the same ones, so they belong

    to a stream         launches of one stream follow one another, whatever plan they are of;
    to a captured call  which a graph repeats on any stream, beside others: but never beside itself;
    to a call           on the host, where a call that fails leaves them as they are.

Streams are not told apart by whether they still exist: torch takes its streams from a pool and
destroys none.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from threading import Lock
from typing import TypeAlias

import torch

from thunder_fuser.kernel.source import Source

Take: TypeAlias = Callable[[int], torch.Tensor]  # the tickets of a launch on a raw stream

PAGE = 1 << 16  # tickets that are zeroed together


def tickets(source: Source, device: torch.device) -> Take:
    """What gives each launch of a kernel its `source.tickets` zeros on `device`."""
    if device.type == "cpu":
        return partial(_fresh, source.tickets)
    return partial(_of_device(device.index or 0).take, source.tickets)


def _fresh(count: int, stream: int) -> torch.Tensor:
    return torch.zeros(count, dtype=torch.int32, device="cpu")


@cache
def _of_device(ordinal: int) -> Reserve:
    device = torch.device("cuda", ordinal)

    def page(count: int) -> torch.Tensor:
        with torch.cuda.device(device):
            zeros = torch.zeros(count, dtype=torch.int32, device=device)
            torch.cuda.current_stream().synchronize()  # other streams use them as well
        return zeros

    def captured(count: int) -> torch.Tensor:
        return torch.zeros(count, dtype=torch.int32, device=device)  # the graph repeats the zeroing

    return Reserve(page, captured, torch.cuda.is_current_stream_capturing)


class Reserve:
    """The zeros of one device. May be called from several threads.

    `page(count)` makes zeros that every stream sees, `captured(count)` those of a call that is
    captured, for when a page is used up: memory cannot be zeroed for all streams then.
    """

    def __init__(
        self, page: Take, captured: Take, is_capturing: Callable[[], bool], size: int = PAGE
    ) -> None:
        self._page, self._captured, self._is_capturing = page, captured, is_capturing
        self._of_stream: dict[int, torch.Tensor] = {}
        self._size, self._lock = size, Lock()
        self._left = page(size)

    def take(self, count: int, stream: int) -> torch.Tensor:
        """At least `count` zeros that no other launch uses at the same time."""
        if self._is_capturing():
            with self._lock:
                found = self._cut(count)
            return self._captured(count) if found is None else found
        found = self._of_stream.get(stream)
        if found is not None and len(found) >= count:
            return found
        with self._lock:
            found = self._cut(count)
            if found is None:
                self._left = self._page(max(self._size, count))
                found = self._cut(count)
                assert found is not None
            self._of_stream[stream] = found
        return found

    def _cut(self, count: int) -> torch.Tensor | None:
        """The next zeros of the page, None where too few are left."""
        if len(self._left) < count:
            return None
        found, self._left = self._left[:count], self._left[count:]
        return found
