"""Views that prims make, as torch takes them of a tensor.

t1 = slice(t0, (0, 2), (4, 6))    =>    x[0:4, 2:6]
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from thunder.core.symbol import BoundSymbol

from thunder_fuser.executor.claims import prim_name


def taken(x: torch.Tensor, view: BoundSymbol) -> torch.Tensor:
    """What the view shows of `x`; `x` itself where it gives another name. Raises RuntimeError for a
    reshape that has to copy."""
    take = _VIEWS.get(prim_name(view))
    return x if take is None else take(x, *view.args[1:])


def _expanded(x: torch.Tensor, shape: Sequence[int], dims: Sequence[int]) -> torch.Tensor:
    for dim in sorted(set(range(len(shape))) - set(dims)):
        x = x.unsqueeze(dim)
    return x.expand(shape)


def _sliced(
    x: torch.Tensor, start: Sequence[int], end: Sequence[int], steps: Sequence[int] | None = None
) -> torch.Tensor:
    steps = steps or [1] * len(start)
    return x[tuple(map(slice, start, end, steps))]


_VIEWS: dict[str, Callable[..., torch.Tensor]] = {
    "BROADCAST_IN_DIM": _expanded,
    "RESHAPE": lambda x, shape: x.view(shape),
    "SLICE": _sliced,
    "SQUEEZE": lambda x, dims: x.squeeze(tuple(dims)),
    "TRANSPOSE": lambda x, dims: x.permute(dims),
}
