"""What of a region, and of a trace of regions, is needed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from thunder.core.prims import OpTags
from thunder.core.proxies import Proxy
from thunder.core.symbol import BoundSymbol, has_tags
from thunder.core.trace import TraceCtx

from thunder_fuser.executor.inplace import write_results
from thunder_fuser.executor.storage import is_write, leaves, rebuilt


@dataclass(frozen=True)
class Boundary:
    """The proxies that enter and leave a set of bound symbols, in the order of first use."""

    inputs: tuple[Proxy, ...]
    outputs: tuple[Proxy, ...]


def boundaries(groups: Sequence[Sequence[BoundSymbol]]) -> list[Boundary]:
    """The boundary of each group. Results of writes leave always: DCE must not lose the write."""
    users: dict[str, set[int]] = {}
    for number, group in enumerate(groups):
        for bsym in group:
            for p in bsym.flat_proxy_args:
                users.setdefault(p.name, set()).add(number)
    found = []
    for number, group in enumerate(groups):
        made = {p.name: p for bsym in group for p in bsym.flat_proxy_outs}
        used = {p.name: p for bsym in group for p in bsym.flat_proxy_args}
        before = _passed_through(group)
        inputs = tuple(p for name, p in used.items() if name not in made or name in before)
        writes = {p.name: p for p in write_results(group)}
        outputs = {
            name: p
            for name, p in made.items()
            if name not in before and (users.get(name, set()) - {number} or name in writes)
        }
        found.append(Boundary(inputs, tuple((outputs | writes).values())))
    return found


def _passed_through(group: Sequence[BoundSymbol]) -> set[str]:
    """Names used before any member of the group defines them: inputs that a no-op returns as is."""
    defined: set[str] = set()
    early: set[str] = set()
    for bsym in group:
        early.update(p.name for p in bsym.flat_proxy_args if p.name not in defined)
        defined.update(p.name for p in bsym.flat_proxy_outs)
    return early


def live(
    bsyms: Sequence[BoundSymbol], outputs: Sequence[Any]
) -> tuple[list[BoundSymbol], set[str]]:
    """The bound symbols that the outputs or a write need, and the names those need."""
    needed = {p.name for p in outputs}
    kept = []
    for bsym in reversed(bsyms):
        if is_write(bsym) or any(p.name in needed for p in bsym.flat_proxy_outs):
            kept.append(bsym)
            needed.update(p.name for p in bsym.flat_proxy_args)
    return kept[::-1], needed


def trim(trace: TraceCtx) -> TraceCtx:
    """The trace without the fusion outputs, fusions and symbols that nothing needs."""
    needed: set[str] = set()
    kept = []
    for bsym in reversed(trace.bound_symbols):
        if bsym.sym.is_fusion:
            writes = {p.name for p in write_results(bsym.subsymbols)}
            output = tuple(p for p in bsym.output if p.name in needed or p.name in writes)
            if not output:
                continue
            subsymbols, inside = live(bsym.subsymbols, output)
            args = tuple(p for p in bsym.args if p.name in inside)
            bsym = replace(bsym, args=args, output=output, subsymbols=tuple(subsymbols))
        elif not _is_needed(bsym, needed):
            continue
        kept.append(bsym)
        needed.update(p.name for p in bsym.flat_proxy_args)
    return rebuilt(trace, kept[::-1])


def _is_needed(bsym: BoundSymbol, needed: set[str]) -> bool:
    results = [p.name for p in bsym.flat_proxy_outs]
    if not results or has_tags(bsym, {OpTags.DONT_DCE}):
        return True
    return not needed.isdisjoint(results) or any(is_write(leaf) for leaf in leaves([bsym]))
