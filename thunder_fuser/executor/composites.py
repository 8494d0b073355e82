"""Composites of Thunder's that give other memory than torch's op, or other gradients.

    y = ltorch.repeat(x, 1, 3)    =>    t = ltorch.repeat(x, 1, 3);  y = ltorch.clone(t)

Torch's result is a copy, where Thunder's parts, an expand and a reshape, may be a view of `x`: a
write into one would change the other. `idle_pads` drops the clone again where nobody can tell.
The diagonals of an einsum are a view in torch, a product with a mask in Thunder, which gathers the
elements of a diagonal also where there are none. A padding that counts from the end of a table is
none to Thunder.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import thunder.clang as clang
import thunder.core.dtypes as dtypes
import thunder.torch as ltorch
import torch
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import Symbol

from thunder_fuser.executor.movements import own_repeat
from thunder_fuser.executor.operands import is_whole, part
from thunder_fuser.executor.stand_ins import Compose


def _repeat(a: Any, *repeats: Any) -> Any:
    numbers = tuple(repeats[0]) if isinstance(repeats[0], Sequence) else repeats
    if not is_whole(a) or not _are_static(numbers):
        return NotImplemented
    return own_repeat(a, numbers)


def _repeat_interleave(
    input: Any, repeats: Any, dim: int | None = None, *, output_size: int | None = None
) -> Any:
    if not is_whole(input) or not _are_static((repeats,)) or output_size is not None:
        return NotImplemented
    result = ltorch.repeat_interleave(input, repeats, dim)
    extent = input.numel() if dim is None else input.shape[dim]
    return result if repeats != 1 and extent != 1 else ltorch.clone(result)


def _flip(a: Any, *dims: Any) -> Any:
    """A copy where it flips nothing too."""
    flipped = ltorch.flip(a, *dims)  # which refuses dims that there are not
    is_idle = a.ndim == 0 or dims in ((), ((),), ([],))
    return ltorch.clone(a) if is_idle else flipped


def _abs(a: Any) -> Any:
    """A copy of what is never below zero too."""
    return ltorch.clone(a) if _is_of(dtypes.is_unsigned_dtype, a) else NotImplemented


def _rounded(a: Any) -> Any:
    """A copy of integers too, which are round."""
    return ltorch.clone(a) if _is_of(dtypes.is_exact_dtype, a) else NotImplemented


def _is_of(is_kind: Callable[[Any], bool], a: Any) -> bool:
    """True for a tensor whose type is of that kind, bools aside, of which torch has none of
    these."""
    return isinstance(a, TensorProxy) and a.dtype != dtypes.bool8 and is_kind(a.dtype)


def _copy(a: Any, b: Any) -> Any:
    """Of a tensor that is expanded to the other, which Thunder's takes as it is."""
    if not is_whole(a, b) or tuple(a.shape) == tuple(b.shape):
        return NotImplemented
    return ltorch.copy_(a, ltorch.expand(b, a.shape))


def _unfold(a: Any, dimension: int, size: int, step: int) -> Any:
    """A number has one window, which is a part of it as a row."""
    if a.ndim == 0 and dimension in (0, -1) and size in (0, 1) and step > 0:
        return clang.slice_in_dim(clang.unsqueeze(a, 0), 0, size)
    return clang.unfold(a, dimension, size, step)


# Thunder 0.2.6 gives the method the id of torch.nn.functional.unfold, and calls that.
UNFOLD = Symbol("unfold", meta=_unfold, id="thunder_fuser.unfold")
ltorch._syms_returning_views.add(UNFOLD)


def _einsum(equation: Any, *operands: Any) -> Any:
    """Diagonals, and what is left of the labels in another order; anything else is Thunder's."""
    if not isinstance(equation, str) or len(operands) != 1 or not is_whole(*operands):
        return NotImplemented
    labels, _, wanted = equation.replace(" ", "").partition("->")
    (a,) = operands
    is_view = sorted(set(labels)) == sorted(wanted) and len(labels) == a.ndim > len(wanted)
    if not is_view or not labels.isalpha():
        return NotImplemented
    while (twice := next((c for c in labels if labels.count(c) > 1), None)) is not None:
        first = labels.index(twice)
        second = labels.index(twice, first + 1)
        if a.shape[first] != a.shape[second]:
            return NotImplemented
        a = ltorch.diagonal(a, 0, first, second)
        labels = labels[:first] + labels[first + 1 : second] + labels[second + 1 :] + twice
    return ltorch.permute(a, tuple(labels.index(c) for c in wanted))


def _diagonal(a: Any, offset: Any = 0, dim1: int = 0, dim2: int = 1) -> Any:
    """Of a matrix that the diagonal does not meet a view of no element; else Thunder's gather."""
    if not is_whole(a) or not isinstance(offset, int) or a.ndim < 2:
        return NotImplemented
    if not all(-a.ndim <= d < a.ndim for d in (dim1, dim2)) or (dim1 - dim2) % a.ndim == 0:
        return NotImplemented
    if -a.shape[dim1] < offset < a.shape[dim2]:
        return NotImplemented
    planes = ltorch.movedim(a, (dim1, dim2), (-2, -1))
    return ltorch.squeeze(part(part(planes, -2, 0, 1), -1, 0, 0), -2)


def _embedding(input: Any, weight: Any, padding_idx: Any = None, *args: Any, **kwargs: Any) -> Any:
    if not isinstance(padding_idx, int) or padding_idx >= 0:
        return NotImplemented
    return ltorch.embedding(input, weight, padding_idx + weight.shape[0], *args, **kwargs)


def _getitem(a: Any, key: Any) -> Any:
    """`True` stands for a dim of extent 1, of a copy; Thunder takes it for the index 1."""
    keys = key if isinstance(key, tuple) else (key,)
    bools = [k for k in keys if isinstance(k, bool)]
    if not bools:
        return NotImplemented
    if bools != [True] or any(isinstance(k, TensorProxy | Sequence) for k in keys):
        raise NotImplementedError(
            f"thunder_fuser has no x[{', '.join(map(str, keys))}]: of bools it takes one True, "
            "beside ints, slices, None and ..."
        )
    return ltorch.clone(ltorch.getitem(a, tuple(None if k is True else k for k in keys)))


def _are_static(numbers: Iterable[Any]) -> bool:
    return all(isinstance(n, int) for n in numbers)


COMPOSITES: dict[Any, Compose] = {
    torch.abs: _abs,
    torch.ceil: _rounded,
    torch.diagonal: _diagonal,
    torch.einsum: _einsum,
    torch.flip: _flip,
    torch.floor: _rounded,
    torch.nn.functional.embedding: _embedding,
    torch.repeat_interleave: _repeat_interleave,
    torch.round: _rounded,
    torch.trunc: _rounded,
    torch.Tensor.__getitem__: _getitem,
    torch.Tensor.copy_: _copy,
    torch.Tensor.repeat: _repeat,
    torch.Tensor.unfold: UNFOLD,
}
