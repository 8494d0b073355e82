"""How a template's `schedule` says that a segment is not for it."""

from __future__ import annotations

from collections.abc import Callable

from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import Target


class Rejected(Exception):
    """The segment is not of this shape; the text says why."""


def rejection(
    schedule: Callable[[Segment, Target], object], segment: Segment, target: Target
) -> str | None:
    """The reason for which `schedule` raises Rejected, or None."""
    try:
        schedule(segment, target)
    except Rejected as reason:
        return str(reason)
    return None
