"""Sums of rows that an index sends to one place: gradients of embeddings and of indexing.

    embedding_backward(g, index, n)          =>    index_sum(g, index, n)
    index_add(a, index, value, dim)          =>    a + index_sum(value, index, size of dim, dim)
    index_put(a, (i, j), value, add=True)    =>    a + index_sum(value, i * size + j, sizes)

One kernel puts the index in order, or several if it is long, and another adds the rows of each
place in the order of their elements, so that no two runs differ. Every index is checked.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from thunder.core.proxies import NumberProxy
from thunder.core.symbol import BoundSymbol

from thunder_fuser.executor.dtypes import data_type
from thunder_fuser.ops.dtype_sets import INTEGERS, REAL_NUMBERS


def embedding_backward_refusal(bsym: BoundSymbol) -> str | None:
    """Why a region cannot hold EMBEDDING_BACKWARD, None if it can."""
    grad, index, count, padding, by_frequency, sparse = bsym.args
    if by_frequency:
        return "rows that are scaled by how often an index names them"
    if sparse:
        return "a sparse gradient"
    return sum_refusal(grad, index, (count, padding))


def index_put_refusal(bsym: BoundSymbol) -> str | None:
    """Why a region cannot hold INDEX_PUT (a, indices, values, accumulate), None if it can."""
    a, indices, values, accumulate = bsym.args
    if not accumulate:
        return "it writes where indices say, in no defined order where they say so twice"
    if not indices:
        return "it has no index"
    return next((r for i in indices if (r := sum_refusal(values, i, a.shape))), None)


def sum_refusal(x: Any, index: Any, sizes: Sequence[Any]) -> str | None:
    """Why rows of `x` cannot be added where `index` says, None if they can."""
    if data_type(index.dtype) not in INTEGERS:
        return f"an index of dtype {data_type(index.dtype)}"
    if data_type(x.dtype) not in REAL_NUMBERS:
        return f"sums of dtype {data_type(x.dtype)}"
    if any(isinstance(n, NumberProxy) for n in (*x.shape, *index.shape, *sizes)):
        return "extents that are not static"
    return None


def embedding_backward(
    ops: Any, grad: Any, index: Any, count: int, padding: int, by_frequency: bool, sparse: bool
) -> Any:
    """As torch's for a dense weight of `count` rows; the row `padding` gets no gradient."""
    return ops.embedding_backward(grad, index, count, padding)


def index_add(ops: Any, a: Any, index: Any, value: Any, dim: int) -> Any:
    """As torch.index_add."""
    flat = ops.reshape(index, [1]) if not index.ndim else index
    return ops.add(a, ops.index_sum(value, flat, a.size(dim), dim))


def with_shapes(args: Sequence[Any], kwargs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of an index_put that accumulates, and the sizes of the tensor."""
    a, indices, values, _ = args
    return (a, indices, values, tuple(a.shape), tuple(indices[0].shape)), {}


def index_put(
    ops: Any, a: Any, indices: Sequence[Any], values: Any, shape: Sequence[int], put: Sequence[int]
) -> Any:
    """As torch.index_put with accumulate=True; `put` is the shape of an index."""
    places, count = prod(put), len(indices)
    flat = None
    for index, size in zip(indices, shape, strict=False):
        place = _checked(ops, ops.reshape(index, [places]), size)
        flat = place if flat is None else ops.add(ops.mul(flat, size), place)
    rows = ops.reshape(values, [places, *shape[count:]])
    sums = ops.index_sum(rows, flat, prod(shape[:count]))
    return ops.add(a, ops.reshape(sums, list(shape)))


def _checked(ops: Any, index: Any, size: int) -> Any:
    """The places of an index that counts from the end where it is negative."""
    wrapped = ops.where(ops.lt(index, 0), ops.add(index, size), index)
    return ops.in_range(wrapped, size)
