"""Pads of what an image has itself, which Thunder 0.2.6 refuses.

    y = pad(x, (1, 2), "replicate")    =>    y = cat((x[..., :1], x, x[..., -1:], x[..., -1:]), -1)

`reflect` pads with what lies before and behind each edge, in the other order, `circular` with what
lies at the other end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import thunder.torch as ltorch
import torch.nn.functional as F

from thunder_fuser.executor.operands import is_whole, part
from thunder_fuser.executor.stand_ins import Compose


def _pad(input: Any, pad: Sequence[int], mode: str = "constant", value: Any = None) -> Any:
    sides = _SIDES.get(mode)
    if sides is None or not is_whole(input) or not all(isinstance(n, int) for n in pad):
        return NotImplemented
    count = len(pad) // 2
    if len(pad) % 2 or input.ndim not in (count + 1, count + 2) or min(pad, default=-1) < 0:
        return NotImplemented
    if any(n > _MOST[mode](input.shape[-1 - k // 2]) for k, n in enumerate(pad)):
        return NotImplemented
    result = input
    for k in range(count):
        before, behind = pad[2 * k : 2 * k + 2]
        if before or behind:
            dim = input.ndim - 1 - k
            left, right = sides(result, dim, before, behind)
            result = ltorch.cat([t for t in (left, result, right) if t.shape[dim]], dim)
    return ltorch.clone(input) if result is input else result


def _reflected(a: Any, dim: int, before: int, behind: int) -> tuple[Any, Any]:
    last = a.shape[dim] - 1
    left, right = part(a, dim, 1, 1 + before), part(a, dim, last - behind, last)
    return ltorch.flip(left, dim), ltorch.flip(right, dim)


def _repeated(a: Any, dim: int, before: int, behind: int) -> tuple[Any, Any]:
    first, last = part(a, dim, 0, 1), part(a, dim, a.shape[dim] - 1, a.shape[dim])
    shape = list(a.shape)
    return tuple(
        ltorch.expand(edge, (*shape[:dim], n, *shape[dim + 1 :]))
        for edge, n in ((first, before), (last, behind))
    )


def _from_the_other_end(a: Any, dim: int, before: int, behind: int) -> tuple[Any, Any]:
    return part(a, dim, a.shape[dim] - before, a.shape[dim]), part(a, dim, 0, behind)


_SIDES: dict[str, Callable[[Any, int, int, int], tuple[Any, Any]]] = {
    "circular": _from_the_other_end,
    "reflect": _reflected,
    "replicate": _repeated,
}
# How many places a side may have of a dim; torch refuses more.
_MOST: dict[str, Callable[[int], float]] = {
    "circular": lambda extent: extent,
    "reflect": lambda extent: extent - 1,
    "replicate": lambda extent: float("inf"),
}

BORDERS: dict[Any, Compose] = {F.pad: _pad}
