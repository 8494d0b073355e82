"""Kinds of values that decide where a fusion is cut."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from thunder_fuser.ir.tensor import TensorView

Test = Callable[[TensorView], bool]
Pair = Callable[[TensorView, TensorView], bool]  # a producer and its consumer
NOTHING: Test = frozenset[TensorView]().__contains__


def always(producer: TensorView, consumer: TensorView) -> bool:
    return True


def never(producer: TensorView, consumer: TensorView) -> bool:
    return False


@dataclass(frozen=True)
class Kind:
    """Values that a kernel has one by one: what `begins` them, what `follows` from one at one depth
    and is of the kind as well, and what can only be computed behind a `cut`, for what `reason`."""

    begins: Test
    follows: Pair
    cut: Pair
    reason: str
    members: set[TensorView] = field(default_factory=set)
