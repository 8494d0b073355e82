"""`explain(jfn)`: what became of every bound symbol of a compiled function, and why."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import thunder
from thunder.core.symbol import BoundSymbol

from thunder_fuser.executor.region import FusedRegion, region_of
from thunder_fuser.executor.report import Key, is_bookkeeping, reports_of, take_reason


def explain(jfn: Callable[..., Any]) -> str:
    """Text: one line per bound symbol of the last forward and backward traces, then each region.

    A line says which region claimed the symbol, or why none did, and where the user wrote it. A
    region that has run shows its plan: segments, aliases, kernels. Raises ValueError for a function
    that thunder.jit did not compile or that was never called.
    """
    reasons = _reasons(jfn)
    parts: list[str] = []
    regions: list[FusedRegion] = []
    for title, traces in (
        ("forward", thunder.last_traces(jfn)),
        ("backward", thunder.last_backward_traces(jfn)),
    ):
        if traces:
            lines = list(_lines(traces[-1], reasons, regions))
            parts.append("\n".join([f"{title}:", *lines]))
    parts += [_describe(region) for region in regions]
    return "\n\n".join(parts)


def regions_of(jfn: Callable[..., Any]) -> list[FusedRegion]:
    """The region callables of the last forward and backward traces, in order.

    Raises ValueError for a function that thunder.jit did not compile or that was never called.
    """
    check_called(jfn)
    regions: list[FusedRegion] = []
    for traces in (thunder.last_traces(jfn), thunder.last_backward_traces(jfn)):
        if traces:
            found = (region_of(bsym) for bsym in traces[-1].bound_symbols)
            regions += [region for region in found if region is not None]
    return regions


def _reasons(jfn: Callable[..., Any]) -> Mapping[Key, deque[str]]:
    check_called(jfn)
    reports = reports_of(thunder.compile_data(jfn))
    return reports[-1].reasons() if reports else {}


def check_called(jfn: Callable[..., Any]) -> None:
    """Raise ValueError for a function that thunder.jit did not compile or that was never called."""
    stats = thunder.compile_stats(jfn)
    if thunder.compile_data(jfn) is None or stats is None:
        raise ValueError(f"{jfn!r} was not made by thunder.jit")
    if not stats.last_traces:
        raise ValueError(f"{jfn!r} was never called: there is nothing to explain yet")


def _lines(
    trace: Any, reasons: Mapping[Key, deque[str]], regions: list[FusedRegion]
) -> Iterator[str]:
    for bsym in trace.bound_symbols:
        region = region_of(bsym)
        if region is not None:
            regions.append(region)
            for part in bsym.subsymbols:
                yield _line(part, f"in region {region.name}")
        elif not is_bookkeeping(bsym):
            yield _line(bsym, f"outside: {_why(bsym, reasons)}")


def _line(bsym: BoundSymbol, verdict: str) -> str:
    names = ", ".join(p.name for p in bsym.flat_proxy_outs)
    return f"  {names or '-':<12} {bsym.sym.name:<20} {verdict}{_where(bsym)}"


def _where(bsym: BoundSymbol) -> str:
    """The user's source line; backward symbols have none."""
    if not bsym.source_filename:
        return ""
    line = getattr(bsym.source_positions, "lineno", None)
    return f"  ({bsym.source_filename}:{line})" if line else f"  ({bsym.source_filename})"


def _why(bsym: BoundSymbol, reasons: Mapping[Key, deque[str]]) -> str:
    reason = take_reason(reasons, bsym)
    if reason is not None:
        return reason
    executor = bsym.sym.executor
    return f"taken by executor {executor.name}" if executor else f"no rule for {bsym.sym.name}"


def _describe(region: FusedRegion) -> str:
    header = (
        f"region {region.name}: {len(region.bsyms)} symbols, "
        f"{len(region.inputs)} inputs, {len(region.outputs)} outputs, on {region.device}"
    )
    if not region.definitions:
        return f"{header}; not called yet"
    changes = [f"  recompiled: {reason}" for reason in region.recompiles()]
    return "\n".join([header, *(_indent(text) for text in region.plans()), *changes])


def _indent(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
