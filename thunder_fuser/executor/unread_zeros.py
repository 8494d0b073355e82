"""No zeros for results that have no gradient.

    backward(zeros(n, int8), dy)    =>    backward(None, dy)

Of every result of a function that nobody gave a gradient torch's autograd fills zeros, also of
whole numbers and truths, unless the function asks it not to, as AOTAutograd's do. Thunder 0.2.6
does not, and reads none of them: behind rows that are rounded to 8 bits beside their scales it was
half of a plane.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from thunder.executors.torch_autograd import ThunderOutputFunction


def leave_unread_zeros() -> None:
    """Ask torch for no zeros of such results behind functions that Thunder compiles. Those for
    thunderfx, and in a graph that is captured, keep theirs: there floats may have no gradient
    either, of which Thunder does not know."""
    if not hasattr(ThunderOutputFunction.forward, "__wrapped__"):
        ThunderOutputFunction.forward = staticmethod(_asking(ThunderOutputFunction.forward))


def _asking(forward: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(forward)
    def asked(ctx: Any, *args: Any) -> Any:
        ctx._materialize_non_diff_grads = False
        return forward(ctx, *args)

    return asked
