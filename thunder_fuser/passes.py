"""Observers of the pipeline: they are told what each stage made, and change nothing.

Stages compute; whoever wants to print, write or time them is an observer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias, TypeVar

_T = TypeVar("_T")

# In the order of the pipeline. Those from `schedule` to `source` are told once per segment.
Stage: TypeAlias = Literal[
    "fusion", "bound", "tidied", "segmented", "schedule", "kernel", "source", "plan"
]


class Observer(Protocol):
    """Someone who wants to see what a stage made; `str(value)` is the text to show."""

    def see(self, stage: Stage, value: object, segment: int | None) -> None:
        """`segment` is the position of the segment that the value belongs to, if it is of one."""


@dataclass(frozen=True)
class Watch:
    """Tells all observers and hands the value on: `tidied = watch("tidied", tidy(fusion))`."""

    observers: tuple[Observer, ...] = ()

    def __call__(self, stage: Stage, value: _T, segment: int | None = None) -> _T:
        for observer in self.observers:
            observer.see(stage, value, segment)
        return value
