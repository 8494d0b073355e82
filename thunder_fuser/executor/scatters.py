"""Scatters, without atomics: those of few elements are selections.

    scatter_add(a, index, value, dim)  =>  for each j: a = where(place == index[j], a + value[j], a)

Every element of the result compares its place with the few indices of its row, in their order, so
sums are the same in every run. Indices are checked before that. More elements are sums of rows
where all rows share the places (`index_sums`), and sums along rows where each element has its own
(`pick_sums`). Of no places at all the result is a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Number
from typing import Any

from thunder.core.dtypes import dtype_to_numbertype, is_exact_dtype
from thunder.core.prims import PrimIDs
from thunder.core.proxies import NumberProxy, TensorProxy
from thunder.core.symbol import BoundSymbol

from thunder_fuser.executor import index_sums, pick_sums

MAX_PLACES = 8  # indices that every element of the result is compared with

SCATTERS = frozenset({"INDEX_ADD", "SCATTER", "SCATTER_ADD"})


def scatter_refusal(bsym: BoundSymbol) -> str | None:
    """Why a region cannot hold SCATTER, SCATTER_ADD or INDEX_ADD (a, index, value, dim)."""
    a, index, value, dim = bsym.args
    places = _places(index, dim)
    if not a.ndim:
        return "a tensor without dims"
    if isinstance(places, NumberProxy):
        return "an index whose extent is not static"
    if isinstance(value, NumberProxy):
        return "a value that is known at run time only"
    if places > MAX_PLACES and bsym.sym.name == "index_add":
        return index_sums.sum_refusal(value, index, a.shape)
    if places > MAX_PLACES and _adds(bsym):
        reason = pick_sums.pick_refusal(a, index, value, dim)
        return reason and f"{reason}: torch adds them, on CUDA in no fixed order"
    if places > MAX_PLACES:
        return f"it has {places} places along its axis, at most {MAX_PLACES}: torch writes them"
    if not _adds(bsym) and places > 1 and isinstance(value, TensorProxy):
        return "which of several values for one place counts is not defined"
    rows = [n for k, n in enumerate(a.shape) if k != dim]
    along = [(t, k) for t in (index, value) if getattr(t, "ndim", 0) == a.ndim for k in [dim]]
    if any([n for k, n in enumerate(t.shape) if k != d] != rows for t, d in along):
        return "it writes a part of the rows only"
    if isinstance(value, TensorProxy) and value.ndim and value.shape[dim] != places:
        return "it has more values than places"
    return None


def is_sum(bsym: BoundSymbol) -> bool:
    """True for a prim that adds many elements or rows where an index says: it is computed once."""
    if bsym.sym.id in (PrimIDs.INDEX_ADD, PrimIDs.SCATTER_ADD):
        return bool(_places(bsym.args[1], bsym.args[3]) > MAX_PLACES)
    return bsym.sym.id in (PrimIDs.EMBEDDING_BACKWARD, PrimIDs.INDEX_PUT)


def with_places(args: Sequence[Any], kwargs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of a scatter, and how many places it has along its axis."""
    a, index, value, dim = args
    if isinstance(value, Number) and is_exact_dtype(a.dtype):
        value = dtype_to_numbertype(a.dtype)(value)
    return (a, index, value, dim, _places(index, dim)), {}


def with_sizes(args: Sequence[Any], kwargs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    """The same of a scatter_add, and whether it has an index of each value."""
    found, named = with_places(args, kwargs)
    _, index, value, *_ = args
    return (*found, tuple(index.shape) == tuple(value.shape)), named


def scatter_add(
    ops: Any, a: Any, index: Any, value: Any, dim: int, places: int, is_whole: bool = True
) -> Any:
    """As torch.scatter_add, for the scatters that are not refused."""
    if places > MAX_PLACES:
        return pick_sums.pick_sum(ops, a, index, value, dim, is_whole)
    a = a if places else ops.set(a)
    for hit, term in _hits(ops, a, index, value, dim, places):
        a = ops.where(hit, ops.add(a, term), a)
    return a


def scatter(ops: Any, a: Any, index: Any, value: Any, dim: int, places: int) -> Any:
    """As torch.scatter; `value` is a tensor or a number."""
    a = a if places else ops.set(a)
    for hit, term in _hits(ops, a, index, value, dim, places):
        a = ops.where(hit, term, a)
    return a


def index_add(ops: Any, a: Any, index: Any, value: Any, dim: int, places: int) -> Any:
    """As torch.index_add."""
    if places > MAX_PLACES:
        return index_sums.index_add(ops, a, index, value, dim)
    flat = ops.broadcast(index, [k != dim or not index.ndim for k in _dims(a)])
    return scatter_add(ops, a, flat, value, dim, places)


def _hits(ops: Any, a: Any, index: Any, value: Any, dim: int, places: int) -> list[tuple[Any, Any]]:
    """For each place: which elements of `a` it is, and the value for them."""
    counter = ops.broadcast(ops.iota(a.size(dim)), [k != dim for k in _dims(a)])
    checked = ops.in_range(index, a.size(dim))
    is_tensor = hasattr(value, "ndim")
    return [
        (
            ops.eq(counter, _piece(ops, checked, dim, k)),
            _piece(ops, value, dim, k) if is_tensor else value,
        )
        for k in range(places)
    ]


def _piece(ops: Any, x: Any, dim: int, start: int) -> Any:
    starts = [start if k == dim else 0 for k in _dims(x)]
    ends = [start + 1 if k == dim else x.size(k) for k in _dims(x)]
    return ops.slice(x, starts, ends)


def _dims(x: Any) -> range:
    return range(x.ndim)


def _places(index: Any, dim: int) -> Any:
    return index.shape[dim if index.ndim > 1 else 0] if index.ndim else 1


def _adds(bsym: BoundSymbol) -> bool:
    return bool(bsym.sym.name != "scatter")
