"""The gradient of a diagonal, as a selection: Thunder's parts make it a sum by an index."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import thunder.torch as ltorch
from thunder.core.transforms import get_grad, put_grad

SYMBOL = ltorch.diagonal


def _diagonal(a: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """The gradient lies where the diagonal does, among zeros."""
    result = SYMBOL(a, offset, dim1, dim2)
    put_grad(a, _placed(get_grad(result), a, offset, dim1, dim2))
    return result


def _placed(g: Any, a: Any, offset: int, dim1: int, dim2: int) -> Any:
    rows, columns = a.shape[dim1], a.shape[dim2]
    length = min(rows + min(offset, 0), columns - max(offset, 0))
    if length <= 0:
        return ltorch.zeros_like(a)
    before = max(-offset, 0)  # rows without an element of the diagonal
    by_row = ltorch.unsqueeze(ltorch.pad(g, (before, rows - before - length)), -1)
    row = ltorch.unsqueeze(ltorch.arange(rows, device=a.device), -1)
    column = ltorch.arange(columns, device=a.device)
    plane = ltorch.where(ltorch.eq(ltorch.add(row, offset), column), by_row, 0)
    return ltorch.movedim(plane, (-2, -1), (dim1, dim2))


GRADIENTS: dict[Any, Callable[..., Any]] = {SYMBOL.id: _diagonal}
