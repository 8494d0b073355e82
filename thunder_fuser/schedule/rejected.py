"""How a template says that a segment is not for it: its `schedule` raises, its `reject` returns."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from thunder_fuser.segment.segment import Segment

Given = TypeVar("Given")


class Rejected(Exception):
    """The segment is not of this shape; the text says why."""


def rejecting(
    schedule: Callable[[Segment, Given], object],
) -> Callable[[Segment, Given], str | None]:
    """The `reject` of a template: why it cannot run a segment, or is not worth it; or None."""

    def reject(segment: Segment, given: Given) -> str | None:
        try:
            schedule(segment, given)
        except Rejected as reason:
            return str(reason)
        return None

    return reject
