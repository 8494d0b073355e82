"""`explain(jfn)`: what became of every bound symbol of a compiled function, and why."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import thunder

from thunder_fuser.executor.region import FusedRegion, region_of
from thunder_fuser.executor.steps import Half, Step, Symbol, check_called, halves


def explain(jfn: Callable[..., Any]) -> str:
    """Text: one line per bound symbol of the last forward and backward traces, then each region.

    A line says which region claimed the symbol, or why none did, and where the user wrote it. What
    stays outside is listed again by the bytes that it costs. A region that has run shows its plan:
    segments, aliases, kernels. Raises ValueError for a function that thunder.jit did not compile or
    that was never called.
    """
    found = halves(jfn)
    parts = ["\n".join([_heading(half), *_lines(half)]) for half in found]
    if outside := exchanged(found):
        title = "outside, and the bytes that regions write for it or read from it:"
        parts.append("\n".join([title, *(f"  {line}" for line in _table(outside))]))
    parts += [_describe(step.region) for half in found for step in half.steps if step.region]
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


@dataclass(frozen=True)
class Outside:
    """Symbols of one op that stayed outside for one reason, and the bytes that pass between them
    and regions: what fusing them too would spare."""

    op: str
    reason: str
    count: int
    bytes: int


def exchanged(found: Sequence[Half]) -> list[Outside]:
    """What stayed outside, by bytes, the most expensive first."""
    steps = [step for half in found for step in half.steps]
    made = {value for step in steps if step.region for value in step.makes}
    read = {value for step in steps if step.region for value in step.reads}
    groups: dict[tuple[str, str], list[int]] = {}
    for step in steps:
        for symbol in step.symbols:
            if symbol.reason is not None:
                crossing = [v for v in step.reads if v in made]
                crossing += [v for v in step.makes if v in read]
                cost = sum(value.bytes for value in crossing)
                groups.setdefault((symbol.op, symbol.reason), []).append(cost)
    rows = [Outside(*key, len(costs), sum(costs)) for key, costs in groups.items()]
    return sorted(rows, key=lambda row: -row.bytes)


def _heading(half: Half) -> str:
    """`forward: 11 symbols in 1 region, 2 outside`."""
    claimed = [step for step in half.steps if step.region]
    symbols = sum(len(step.symbols) for step in claimed)
    outside = len(half.steps) - len(claimed)
    plural = "" if len(claimed) == 1 else "s"
    return f"{half.title}: {symbols} symbols in {len(claimed)} region{plural}, {outside} outside"


def _lines(half: Half) -> Iterator[str]:
    for step in half.steps:
        yield from (_line(symbol, step) for symbol in step.symbols)


def _line(symbol: Symbol, step: Step) -> str:
    verdict = f"in region {step.region.name}" if step.region else f"outside: {symbol.reason}"
    return f"  {', '.join(symbol.results) or '-':<12} {symbol.op:<20} {verdict}{_where(symbol)}"


def _where(symbol: Symbol) -> str:
    """The user's source line, where it is known."""
    return f"  ({symbol.file}:{symbol.line})" if symbol.file else ""


def _table(outside: Sequence[Outside]) -> Iterator[str]:
    width = max(len(str(row.bytes)) for row in outside)
    for row in outside:
        yield f"{row.bytes:>{width}} bytes  {row.count} x {row.op}: {row.reason}"


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
