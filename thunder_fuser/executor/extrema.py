"""Find an extremum again where its gradient asks which elements are it.

    m = amax(t, 0)                             m = amax(t, 0)
    -- backward --                             -- backward --
    b = broadcast(m); e = eq(t, b)     =>      n = amax(t, 0); b = broadcast(n); e = eq(t, b)

The backward computes `t` again rather than keeping it, from what was rounded in between, and by
another kernel. It may differ from what `m` was found of in the last bit: then no element is equal,
their number is 0, and the gradient 0 / 0. An extremum of the same values is always one of them, and
is found while they are in registers. Values that are in memory as they were compared stay as kept,
and such that nothing rounds, as sizes of those, where an extremum reads memory once more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from thunder.core.dtypes import is_float_dtype
from thunder.core.prims import OpTags
from thunder.core.proxies import Proxy, TensorProxy, variableify
from thunder.core.symbol import BoundSymbol, BoundSymbolTag, has_tags
from thunder.core.trace import TraceCtx, from_trace, tracectx

from thunder_fuser.dtypes import DataType
from thunder_fuser.executor.claims import ALIAS_PRIMS, is_backward, prim_name, why_not
from thunder_fuser.executor.dtypes import data_type
from thunder_fuser.executor.reductions import is_read_again
from thunder_fuser.executor.storage import leaves, tensors
from thunder_fuser.runtime.dtypes import TORCH_DTYPES

EXTREMA = frozenset({"AMAX", "AMIN"})
# Prims that round nothing.
EXACT = frozenset({"ABS", "NEG", "SIGN", "WHERE", "MAXIMUM", "MINIMUM", "GT", "GE", "LT", "LE"})

Makers = Mapping[str, BoundSymbol]  # the leaf that makes each value


def extrema_again(trace: TraceCtx) -> TraceCtx:
    """The trace itself where no backward compares with an extremum of computed values."""
    bsyms = trace.bound_symbols
    if not any(map(is_backward, bsyms)):
        return trace
    makers = {p.name: leaf for leaf in leaves(bsyms) for p in leaf.flat_proxy_outs}
    # Of what another executor computes as a whole nothing but the results has a name outside.
    earlier = {
        p.name
        for bsym in bsyms
        if not is_backward(bsym) and why_not(bsym) is None
        for leaf in leaves([bsym])
        for p in leaf.flat_proxy_outs
    }
    result, body = from_trace(trace), list[BoundSymbol]()
    with tracectx(result):
        for bsym in bsyms:
            renames: dict[Any, Proxy] = {}
            if is_backward(bsym):
                for path in _compared(bsym, makers):
                    if path[0].output.name in earlier:
                        body += _repeated(path, renames)
            body.append(bsym.from_bsym_swap_proxies(renames) if renames else bsym)
    result.bound_symbols = body
    return trace if len(body) == len(bsyms) else result


def are_floats_compared(leaf: BoundSymbol) -> bool:
    """True for an equality of two floating tensors, which the last bit of either decides. One with
    itself asks for NaN, which is the same however often it is computed."""
    read = tensors(leaf.flat_proxy_args)
    are_two = len({p.name for p in read}) == 2
    return prim_name(leaf) in ("EQ", "NE") and are_two and all(map(_is_float, read))


def _is_float(proxy: TensorProxy) -> bool:
    return bool(is_float_dtype(proxy.dtype))


def _compared(bsym: BoundSymbol, makers: Makers) -> list[list[BoundSymbol]]:
    """What leads from an extremum of computed values to `bsym`, in which it is compared with its
    own terms."""
    found = []
    inside = {name for leaf in leaves([bsym]) for name in _names(leaf)}
    for leaf in filter(are_floats_compared, leaves([bsym])):
        for one, other in (leaf.args, leaf.args[::-1]):
            path = [x for x in _path(other.name, makers) if inside.isdisjoint(_names(x))]
            if path and prim_name(path[0]) in EXTREMA:
                terms = path[0].args[0].name
                is_of_it = _root(terms, makers) == _root(one.name, makers)
                if is_of_it and not _is_kept(path[0], makers):
                    found.append(path)
    return found


def _names(leaf: BoundSymbol) -> set[str]:
    return {p.name for p in leaf.flat_proxy_outs}


def _path(name: str, makers: Makers) -> list[BoundSymbol]:
    """What leads to a value, back to the first leaf that is no view, cast or other name; nothing
    for an argument."""
    path: list[BoundSymbol] = []
    while name in makers:
        leaf = makers[name]
        path.insert(0, leaf)
        if not _is_same(leaf):
            return path
        name = tensors(leaf.flat_proxy_args)[0].name
    return []


def _root(name: str, makers: Makers) -> str:
    while name in makers and _is_same(makers[name]):
        name = tensors(makers[name].flat_proxy_args)[0].name
    return name


def _is_same(leaf: BoundSymbol) -> bool:
    """True for what gives the elements of one tensor another shape, type or name."""
    changes = has_tags(leaf, {OpTags.SHAPE_OP}) or prim_name(leaf) in ALIAS_PRIMS
    is_cast = prim_name(leaf) == "CONVERT_ELEMENT_TYPE"
    return (changes or is_cast) and len(tensors(leaf.flat_proxy_args)) == 1


def _is_kept(extremum: BoundSymbol, makers: Makers) -> bool:
    """True where the backward compares with what the forward found: of the very values, or of such
    that it computes alike, and would have to read from memory for an extremum."""
    terms = extremum.args[0]
    is_there = _is_in_memory(terms.name, makers)
    return is_there or (is_read_again(extremum) and is_exact(terms, makers))


def _is_in_memory(name: str, makers: Makers) -> bool:
    """True where the backward reads the very values that the extremum was found of: of an argument,
    or of what no region makes, by views and casts that keep every bit."""
    while name in makers:
        leaf = makers[name]
        if why_not(leaf) is not None:
            return True
        if not _keeps_bits(leaf):
            return False
        name = tensors(leaf.flat_proxy_args)[0].name
    return True


def is_exact(value: TensorProxy, makers: Makers) -> bool:
    """True for what is computed of such values without rounding: the same bits wherever it is. A
    cast that narrows rounds nothing of what came from its type."""
    todo = list[tuple[TensorProxy, Any]]([(value, None)])  # with the type to which it is narrowed
    while todo:
        proxy, narrow = todo.pop()
        leaf = makers.get(proxy.name)
        if leaf is None or why_not(leaf) is not None:
            if narrow not in (None, data_type(proxy.dtype)):
                return False
            continue
        given = tensors(leaf.flat_proxy_args)
        if prim_name(leaf) in EXACT:
            kind = narrow or data_type(proxy.dtype)
            if not all(_is_among(operand, kind) for operand in leaf.flat_args):
                return False
        elif not _is_same(leaf):
            return False
        elif not _keeps_bits(leaf):
            kind = data_type(proxy.dtype)
            if narrow not in (None, kind):
                return False
            narrow = kind
        todo += [(p, narrow if _is_float(p) else None) for p in given]
    return True


def _is_among(operand: Any, kind: DataType | None) -> bool:
    """True for a tensor, a number that a type of floats has, and any that is compared."""
    if kind is None or not kind.is_floating or isinstance(operand, TensorProxy):
        return True
    is_number = isinstance(operand, int | float)
    return (
        is_number
        and torch.tensor(float(operand), dtype=TORCH_DTYPES[kind], device="cpu").item() == operand
    )


def _keeps_bits(leaf: BoundSymbol) -> bool:
    """True for views, and casts to types that hold each value: of as many bytes to its own."""
    if not _is_same(leaf):
        return False
    (source,), made = tensors(leaf.flat_proxy_args), leaf.flat_proxy_outs[0]
    is_own = data_type(source.dtype) is data_type(made.dtype)
    return bool(source.dtype.bytes < made.dtype.bytes) or is_own


def _repeated(path: Sequence[BoundSymbol], renames: dict[Any, Proxy]) -> list[BoundSymbol]:
    """The leaves of `path` once more, as the backward's, with results of their own."""
    made = []
    for leaf in path:
        for out in leaf.flat_proxy_outs:
            renames[variableify(out)] = TensorProxy(like=out)
        made.append(leaf.from_bsym_swap_proxies(renames).from_bsym(tags={BoundSymbolTag.BACKWARD}))
    return made
