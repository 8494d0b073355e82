"""Sums of what an index of each element sends to one place of its row: gradients of picks.

    scatter_add(a, index, value, -1)    =>    a + pick_sum(value, index, -1, columns of a)

A block adds the elements of a row, and needs no order of them: no two runs differ.
"""

from __future__ import annotations

from math import prod
from typing import Any

from thunder.core.devices import to_torch_device
from thunder.core.proxies import NumberProxy

from thunder_fuser.analysis.picked_rows import refusal
from thunder_fuser.executor.dtypes import data_type
from thunder_fuser.ops.dtype_sets import INTEGERS, REAL_NUMBERS
from thunder_fuser.runtime.targets import target_for


def pick_refusal(a: Any, index: Any, value: Any, dim: int) -> str | None:
    """Why `value` cannot be added to rows of `a` where `index` says, None if it can."""
    if any(isinstance(n, NumberProxy) for t in (a, index, value) for n in t.shape):
        return "extents that are not static"
    if data_type(index.dtype) not in INTEGERS:
        return f"an index of dtype {data_type(index.dtype)}"
    dtype = data_type(value.dtype)
    if dtype is None or dtype not in REAL_NUMBERS:
        return f"sums of dtype {dtype}"
    if prod(a.shape[dim + 1 :]) != 1:
        return f"each element has an index along dim {dim} of {a.ndim}, not along the last one"
    if any(n != m for k, (n, m) in enumerate(zip(a.shape, index.shape, strict=True)) if k != dim):
        return "it writes a part of the rows only"
    room = target_for(to_torch_device(a.device)).shared_bytes
    return refusal(index.shape[dim], a.shape[dim], dtype, room)


def pick_sum(ops: Any, a: Any, index: Any, value: Any, dim: int, is_whole: bool) -> Any:
    """As torch.scatter_add, which reads as much of `value` as there are indices."""
    if not is_whole:
        sizes = [index.size(k) for k in range(index.ndim)]
        value = ops.slice(value, [0] * len(sizes), sizes)
    return ops.add(a, ops.pick_sum(value, index, dim, a.size(dim)))
