"""Reductions that Thunder takes for torch's own, of ops that it sees into.

    t0 = ltorch.vector_norm(x)    =>    t0 = ltorch.sum(ltorch.mul(x, x)); t1 = ltorch.sqrt(t0)

Thunder 0.2.6 registers each of these as an opaque torch op, whose gradient runs the op again under
torch's autograd. Here they are for real floating tensors of static shape; what is not listed, as
the norm of a matrix, stays torch's.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any, TypeAlias

import thunder.clang as clang
import thunder.torch as ltorch
import torch
from thunder.core.proxies import TensorProxy

from thunder_fuser.executor.limits import clamp
from thunder_fuser.executor.operands import is_ours, is_whole, part, wide_type
from thunder_fuser.executor.stand_ins import Compose

Dims: TypeAlias = int | Sequence[int] | None


def _vector_norm(
    x: Any,
    ord: float | str = 2,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """Norms of order 1, 2, inf and -inf. Torch's gradient of a root is 0 where the sum is."""
    if not is_ours(x) or dtype is not None or isinstance(ord, str):
        return NotImplemented
    dims = _all_for_none(x, dim)
    wide = ltorch.to(x, wide_type(x.dtype))
    if ord == 2:
        total = ltorch.sum(ltorch.mul(wide, wide), dims, keepdim)
        is_zero = ltorch.eq(total, 0.0)
        root = ltorch.sqrt(ltorch.where(is_zero, 1.0, total))
        result = ltorch.where(is_zero, 0.0, root)
    elif ord == 1:
        result = ltorch.sum(ltorch.abs(wide), dims, keepdim)
    elif ord in (inf, -inf):
        extremum = ltorch.amax if ord > 0 else ltorch.amin
        result = extremum(ltorch.abs(wide), dims, keepdim)
    else:
        return NotImplemented
    return ltorch.to(result, x.dtype)


def _all_for_none(a: Any, dim: Dims) -> Dims:
    """Torch reduces all dims where it is given none, be it in a tuple."""
    return tuple(range(a.ndim)) if dim in (None, (), []) else dim


def _norm(
    input: Any,
    p: float | str | None = "fro",
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    """torch.norm never is the norm of a matrix but for "nuc"."""
    return _vector_norm(input, 2 if p is None or p == "fro" else p, dim, keepdim, dtype=dtype)


def _linalg_norm(
    A: Any,
    ord: float | str | None = None,
    dim: Dims = None,
    keepdim: bool = False,
    *,
    dtype: torch.dtype | None = None,
) -> Any:
    is_matrix = ord is not None and (A.ndim > 1 if dim is None else not isinstance(dim, int))
    if is_matrix:
        return NotImplemented
    return _vector_norm(A, 2 if ord is None else ord, dim, keepdim, dtype=dtype)


def _normalize(
    input: Any, p: float = 2.0, dim: Dims = 1, eps: float = 1e-12, out: Any = None
) -> Any:
    """Thunder's raises a sum to a power, which has no gradient at 0."""
    length = NotImplemented if out is not None else _vector_norm(input, p, dim, True)
    if length is NotImplemented:
        return NotImplemented
    return ltorch.true_divide(input, clamp(length, min=eps))


def _pairwise_distance(
    x1: Any, x2: Any, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False
) -> Any:
    if not is_ours(x1, x2):
        return NotImplemented
    return _vector_norm(ltorch.add(ltorch.sub(x1, x2), eps), p, -1, keepdim)


def _cosine_similarity(x1: Any, x2: Any, dim: int = 1, eps: float = 1e-8) -> Any:
    """sum(x1 * x2) / (max(|x1|, eps) * max(|x2|, eps)), of what both are expanded to."""
    if not is_ours(x1, x2) or x1.dtype != x2.dtype:
        return NotImplemented
    a, b = clang.maybe_broadcast(x1, x2)
    a, b = (ltorch.to(x, wide_type(x1.dtype, x2.dtype)) for x in (a, b))

    def root(x: Any) -> Any:
        # The square of a limit: no gradient goes to a root of 0.
        return ltorch.sqrt(ltorch.clamp(ltorch.sum(ltorch.mul(x, x), dim), min=eps * eps))

    result = ltorch.true_divide(ltorch.sum(ltorch.mul(a, b), dim), ltorch.mul(root(a), root(b)))
    return ltorch.to(result, x1.dtype)


def _min(a: Any, other: Any = None, keepdim: bool = False, *, dim: Any = None) -> Any:
    """The smallest element of all, the smaller of two, or the smallest along a dim and their
    places: those of the largest of the other sign."""
    if isinstance(other, TensorProxy) and is_whole(a, other):
        return ltorch.minimum(a, other)
    along = other if dim is None else dim
    if not is_ours(a):
        return NotImplemented
    if along is None:
        return ltorch.amin(a, tuple(range(a.ndim)))
    if type(along) is not int or not -a.ndim <= along < a.ndim:
        return NotImplemented
    values, places = ltorch.torch_max(ltorch.neg(a), along, keepdim)
    return ltorch.neg(values), places


def _diff(a: Any, n: int = 1, dim: int = -1) -> Any:
    if n != 1 or not is_ours(a) or not -a.ndim <= dim < a.ndim:
        return NotImplemented
    extent = a.shape[dim]
    return ltorch.sub(part(a, dim, 1, extent), part(a, dim, 0, extent - 1))


def _nansum(a: Any, dim: Dims = None, keepdim: bool = False) -> Any:
    if not is_ours(a):
        return NotImplemented
    return ltorch.sum(ltorch.where(ltorch.isnan(a), 0.0, a), _all_for_none(a, dim), keepdim)


def _count_nonzero(a: Any, dim: Dims = None) -> Any:
    return ltorch.sum(ltorch.ne(a, 0), dim) if is_ours(a) else NotImplemented


COMPOSITIONS: dict[Any, Compose] = {
    torch.count_nonzero: _count_nonzero,
    torch.diff: _diff,
    torch.linalg.norm: _linalg_norm,
    torch.linalg.vector_norm: _vector_norm,
    torch.min: _min,
    torch.nansum: _nansum,
    torch.nn.functional.cosine_similarity: _cosine_similarity,
    torch.nn.functional.pairwise_distance: _pairwise_distance,
    torch.norm: _norm,
}
# Of what Thunder sees into.
NORMALIZED: dict[Any, Compose] = {torch.nn.functional.normalize: _normalize}
