"""Compute equal expressions once.

    t0 = mul(x, y); t1 = mul(x, y); t2 = add(t0, t1)   =>   t0 = mul(x, y); t2 = add(t0, t0)

Outside fusions and inside each fusion by itself. What draws random numbers, writes, or has to do
with a storage that is written stays: its equal text does not mean an equal value. So does what the
trace returns, and the second of two values of which it returns views: two results are two tensors
in eager, whatever is written into one of them later.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from thunder.core.prims import OpTags
from thunder.core.proxies import Proxy, variableify
from thunder.core.symbol import BoundSymbol, has_tags
from thunder.core.trace import TraceCtx
from thunder.core.transform_common import NON_FUNCTIONAL_OPS

from thunder_fuser.executor.claims import prim_name
from thunder_fuser.executor.inplace import is_certain_view
from thunder_fuser.executor.storage import Storages, leaves, rebuilt, sources_of_views
from thunder_fuser.ir.scalar import Number, number_bits

# Prims of Thunder 0.2.6 that draw random numbers; not all of them carry RANDOM_OP.
RANDOM_PRIMS = frozenset(
    {"GET_AND_UPDATE_RNG_STATE", "MULTINOMIAL", "RANDINT", "RANDN", "UNIFORM", "UNIFORM_PHILOX"}
)
_FIXED_TAGS = {
    OpTags.RANDOM_OP,
    OpTags.IN_PLACE,
    OpTags.DONT_DCE,
    OpTags.DEVICE_SYNC_OP,
    OpTags.CTX_MANAGER_ENTER_EXIT_OP,
}
_FIXED_PRIMS = frozenset({"GET_GRAD", "UNPACK_TRIVIAL", "UPDATE_ALIASES", "EMPTY"})

Renames = dict[Any, Proxy]
Merge = Callable[[BoundSymbol, Renames, dict[Any, BoundSymbol]], "BoundSymbol | None"]


def _expression(bsym: BoundSymbol) -> object:
    """What equal expressions have in common: -0.0 is another number than 0.0."""
    numbers = (v for v in bsym.flat_args if isinstance(v, Number))
    return bsym.rhs, *map(number_bits, numbers)


def eliminate_common_subexpressions(trace: TraceCtx, storages: Storages) -> TraceCtx:
    """The trace with equal expressions computed once; arguments and outputs are deduplicated."""
    returned = {p.name for p in trace.bound_symbols[-1].flat_proxy_args}
    shown = sources_of_views(trace.bound_symbols, returned)

    def merge(
        bsym: BoundSymbol, renames: Renames, seen: dict[Any, BoundSymbol]
    ) -> BoundSymbol | None:
        if bsym.has_input(renames):
            bsym = bsym.from_bsym_swap_proxies(renames, skip_output=True)
        if not _is_functional(bsym, storages):
            return bsym
        try:
            first = seen.setdefault(_expression(bsym), bsym)
        except TypeError:  # an argument without a hash
            return bsym
        if first is bsym or first._executor is not bsym._executor:
            return bsym
        if any(p.name in returned for p in bsym.flat_proxy_outs):
            return bsym
        if any(p.name in shown for p in bsym.flat_proxy_outs) and not is_certain_view(bsym):
            if any(p.name in shown for p in first.flat_proxy_outs):
                return bsym
            shown.update(p.name for p in first.flat_proxy_outs)
        for old, new in zip(bsym.flat_proxy_outs, first.flat_proxy_outs, strict=True):
            if old.name != new.name:
                renames[variableify(old)] = new
        return None

    renames: Renames = {}
    seen: dict[Any, BoundSymbol] = {}
    bsyms: list[BoundSymbol] = []
    for bsym in trace.bound_symbols:
        if bsym.sym.is_fusion:
            bsyms.append(_inside(bsym, renames, merge))
        elif (kept := merge(bsym, renames, seen)) is not None:
            bsyms.append(kept)
    return rebuilt(trace, bsyms)


def _inside(fusion: BoundSymbol, renames: Renames, merge: Merge) -> BoundSymbol:
    # Rematerialisation may have taken a merged value off the arguments: its name is then computed
    # again inside, and stands for itself.
    args = {variableify(p) for p in fusion.args}
    local = {old: new for old, new in renames.items() if old in args}
    seen: dict[Any, BoundSymbol] = {}
    merged = [merge(bsym, local, seen) for bsym in fusion.subsymbols]
    outputs = {variableify(p) for p in fusion.output}
    renames.update({old: new for old, new in local.items() if old in outputs})
    return replace(
        fusion,
        args=_unique(fusion.args, local),
        subsymbols=tuple(bsym for bsym in merged if bsym is not None),
        output=_unique(fusion.output, local),
    )


def _unique(proxies: Any, renames: Renames) -> tuple[Any, ...]:
    swapped = (renames.get(variableify(p), p) for p in proxies)
    return tuple({p.name: p for p in swapped}.values())


def _is_functional(bsym: BoundSymbol, storages: Storages) -> bool:
    """True if an equal right-hand side gives an equal value that may be shared."""
    if bsym.sym.id in NON_FUNCTIONAL_OPS or has_tags(bsym, _FIXED_TAGS):
        return False
    parts = list(leaves([bsym]))
    if any(part.sym.executor is not None for part in parts):
        return False  # another executor's op: nothing says that it is a function
    names = {prim_name(part) for part in parts}
    is_fixed = not names.isdisjoint(RANDOM_PRIMS | _FIXED_PRIMS) or not bsym.flat_proxy_outs
    return not is_fixed and storages.is_unwritten(bsym)
