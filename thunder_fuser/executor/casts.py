"""Drop conversions that change nothing, and read through chains of them.

    t0: f32 = convert(x: bf16)           t0: f32 = convert(x)
    t1: bf16 = convert(t0)         =>    (t1 is x)
    t2: f64 = convert(t0)                t2: f64 = convert(x)

A shallow copy is its source. Conversions are followed only between floating types. f32 -> bf16 ->
f32 becomes the identity as well: a region computes in f32, and the rounding goes away on purpose;
one to 8 bits stays, for nobody converts to these but for their values.
But a sum of what leaves the fusion rounded is of that: if it is made by another kernel, it reads
half of the bytes. And what is compared, or meets what it is made of, stays rounded. `strict` keeps
every conversion that narrows, with all that follows from it.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from thunder.core.dtypes import is_float_dtype
from thunder.core.proxies import Proxy, variableify
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx

from thunder_fuser.executor.claims import is_backward, prim_name
from thunder_fuser.executor.early_sums import shrinks
from thunder_fuser.executor.storage import Storages, rebuilt, sources_of_views, tensors

COMPARISONS = frozenset({"EQ", "NE", "LT", "LE", "GT", "GE"})

Renames = dict[Any, Proxy]


def remove_redundant_casts(trace: TraceCtx, storages: Storages, *, strict: bool) -> TraceCtx:
    """The trace with the conversions inside its fusions reduced.

    A value leaves a fusion under its own name unless it is the fusion's argument unchanged; then
    later bound symbols read the argument. What the trace returns, or returns a view of, stays a
    tensor of its own; a gradient may be a view of the cotangent, as torch's are.
    """
    returned = [p.name for p in trace.bound_symbols[-1].flat_proxy_args]
    shown = sources_of_views(trace.bound_symbols, returned)
    renamed: Renames = {}
    bsyms = []
    for bsym in trace.bound_symbols:
        if bsym.has_input(renamed):
            bsym = bsym.from_bsym_swap_proxies(renamed, skip_output=True)
        if bsym.sym.is_fusion:
            own = set(returned) if is_backward(bsym) else shown
            same, subsymbols = _reduce(bsym, storages, own, strict)
            args = {p.name for p in bsym.args}
            outputs = {p.name: p for p in (same.get(variableify(p), p) for p in bsym.output)}
            kept = tuple(p for name, p in outputs.items() if name not in args)
            renamed.update((v, same[v]) for v in map(variableify, bsym.output) if v in same)
            bsym = replace(bsym, subsymbols=subsymbols, output=kept)
        bsyms.append(bsym)
    return rebuilt(trace, bsyms)


def _reduce(
    fusion: BoundSymbol, storages: Storages, shown: set[str], strict: bool
) -> tuple[Renames, tuple[BoundSymbol, ...]]:
    """What equals what inside the fusion, and the symbols left."""
    source: dict[str, Any] = {}  # result of a conversion -> what it converts in the end
    same: Renames = {}  # result of a conversion -> the equal tensor
    summed, told, kept = _summed_as_stored(fusion), _told_apart(fusion), list[BoundSymbol]()
    for bsym in fusion.subsymbols:
        bsym = bsym.from_bsym_swap_proxies(same, skip_output=True) if bsym.has_input(same) else bsym
        if prim_name(bsym) == "SHALLOW_COPY" and storages.is_unwritten(bsym):
            same[variableify(bsym.output)] = bsym.args[0]
            continue
        if not (_is_float_cast(bsym) and storages.is_unwritten(bsym)):
            kept.append(bsym)
            continue
        direct, out = bsym.args[0], bsym.output
        origin = source.get(direct.name, direct)
        if origin.dtype == out.dtype:
            if out.name in shown or out.name in summed or direct.name in told:
                kept.append(bsym)
            else:
                same[variableify(out)] = origin
            continue
        if not strict or _widens(origin.dtype, out.dtype):
            source[out.name] = origin
        is_direct = origin is direct
        kept.append(bsym if is_direct else bsym.from_bsym(args=(origin, *bsym.args[1:])))
    return same, tuple(kept)


def _told_apart(fusion: BoundSymbol) -> set[str]:
    """What comparisons read, and what it is converted from: rounded for these, it is for all. And
    what is narrowed and meets what it is made of, which asks for what the rounding took."""
    made = {b.output.name: b.args[0].name for b in fusion.subsymbols if _is_float_cast(b)}
    names = set[str]()
    for bsym in fusion.subsymbols:
        read = {p.name for p in tensors(bsym.flat_proxy_args)}
        narrow = {made[name] for name in read if name in made}
        names |= read | narrow if prim_name(bsym) in COMPARISONS else set()
        names |= {name for name in narrow if made.get(name) in read}
    return names


def _summed_as_stored(fusion: BoundSymbol) -> set[str]:
    """Conversions of what the fusion stores that nothing but sums reads."""
    stored = {p.name for p in fusion.output}
    found = {
        bsym.output.name
        for bsym in fusion.subsymbols
        if _is_float_cast(bsym) and bsym.args[0].name in stored
    }
    others = (bsym for bsym in fusion.subsymbols if not shrinks(bsym))
    return found.difference(stored, *({p.name for p in b.flat_proxy_args} for b in others))


def _is_float_cast(bsym: BoundSymbol) -> bool:
    if prim_name(bsym) != "CONVERT_ELEMENT_TYPE":
        return False
    proxies = tensors((*bsym.flat_proxy_args, *bsym.flat_proxy_outs))
    return len(proxies) == 2 and all(map(_is_computed_with, proxies))


def _is_computed_with(proxy: Any) -> bool:
    """True for a tensor of floats of more than 8 bits."""
    return bool(is_float_dtype(proxy.dtype)) and proxy.dtype.bytes > 1


def _widens(narrow: Any, wide: Any) -> bool:
    """True if every value of the first type is one of the second; f16 and bf16 hold neither."""
    return bool(narrow.bytes < wide.bytes)
