"""How a template's `schedule` says that a segment is not for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from thunder_fuser.segment.segment import Segment

Given = TypeVar("Given")


class Rejected(Exception):
    """The segment is not of this shape; the text says why."""


def rejection(
    schedule: Callable[[Segment, Given], object], segment: Segment, given: Given
) -> str | None:
    """The reason for which `schedule` raises Rejected, or None."""
    try:
        schedule(segment, given)
    except Rejected as reason:
        return str(reason)
    return None
