"""A symbol that is replaced as a whole, with its gradient.

    y = log_softmax(a, dim)    =>    y, backward = compute(a, dim)

A joint trace runs `backward` at once: Thunder moves what it makes behind the forward.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from thunder.core.symbol import Symbol

Computed = tuple[Any, Callable[[], None]]  # a result, and what puts its operands' gradients


@dataclass(frozen=True)
class Replacement:
    """Of `symbol`, for arguments that it `can_replace`, by what `compute` traces of them."""

    symbol: Symbol
    can_replace: Callable[..., bool]
    compute: Callable[..., Computed]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """The result alone."""
        result, _ = self.compute(*args, **kwargs)
        return result

    def gradient(self, *args: Any, **kwargs: Any) -> Any:
        """The result, with the rule for the gradients of its operands."""
        result, backward = self.compute(*args, **kwargs)
        backward()
        return result
