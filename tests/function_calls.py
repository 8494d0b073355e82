"""What a call does, counted in functions. A count is the same on every machine, a time is not."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType


def entered(function: Callable[..., object], *args: object) -> list[str]:
    """The names of the Python functions that `function(*args)` entered, itself first."""
    names: list[str] = []

    def seen(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            names.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        function(*args)
    finally:
        sys.setprofile(before)
    return names
