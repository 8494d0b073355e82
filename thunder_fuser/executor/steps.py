"""The last traces of a compiled function as steps: calls of our regions, and what stays outside.

This is what `explain` prints and `draw` draws.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import thunder
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx
from torch.utils._pytree import tree_leaves

from thunder_fuser.executor.claims import prim_name
from thunder_fuser.executor.region import FusedRegion, region_of
from thunder_fuser.executor.remat_cut import bytes_of
from thunder_fuser.executor.report import Key, is_bookkeeping, reports_of, take_reason
from thunder_fuser.executor.storage import tensors
from thunder_fuser.executor.translate import place_of

_Reasons = Mapping[Key, deque[str]]


@dataclass(frozen=True)
class Value:
    """A tensor of a trace: `t3`, `bf16[2, 8]`, 32 bytes if it is dense."""

    name: str
    type: str
    bytes: int


@dataclass(frozen=True)
class Symbol:
    """An op and the names of its results. `reason` says why it is in no region, None if it is in
    one. `file` and `line` are the user's; backward symbols have none."""

    op: str
    results: tuple[str, ...]
    reason: str | None
    file: str | None
    line: int | None


@dataclass(frozen=True, eq=False)
class Step:
    """What the trace runs at once: a region with its symbols, or one symbol outside.

    `inside` gives for tensors of the trace their names in the region: Thunder renames results of
    what stays outside after the regions are made.
    """

    region: FusedRegion | None
    symbols: tuple[Symbol, ...]
    reads: tuple[Value, ...]
    makes: tuple[Value, ...]
    inside: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Half:
    """The forward or the backward of a function. `takes` are tensors that come from outside,
    `keeps` those that the forward hands to the backward."""

    title: str
    steps: tuple[Step, ...]
    takes: tuple[Value, ...]
    returns: tuple[Value, ...]
    keeps: tuple[Value, ...]


def halves(jfn: Callable[..., Any]) -> tuple[Half, ...]:
    """The last forward and, if there was one, the last backward.

    Raises ValueError for a function that thunder.jit did not compile or that was never called.
    """
    check_called(jfn)
    reports = reports_of(thunder.compile_data(jfn))
    reasons = reports[-1].reasons() if reports else None
    return tuple(
        _half(title, traces[-1], reasons)
        for title, traces in (
            ("forward", thunder.last_traces(jfn)),
            ("backward", thunder.last_backward_traces(jfn)),
        )
        if traces
    )


def check_called(jfn: Callable[..., Any]) -> None:
    """Raises ValueError for what thunder.jit did not compile, and for what was never called."""
    stats = thunder.compile_stats(jfn)
    if thunder.compile_data(jfn) is None or stats is None:
        raise ValueError(f"{jfn!r} was not made by thunder.jit")
    if not stats.last_traces:
        raise ValueError(f"{jfn!r} was never called: there is nothing to explain yet")


def _half(title: str, trace: TraceCtx, reasons: _Reasons | None) -> Half:
    steps = tuple(_steps(trace, reasons))
    made = {value.name for step in steps for value in step.makes}
    read = dict.fromkeys(value for step in steps for value in step.reads)
    returns, keeps = _results(trace)
    return Half(
        title,
        steps,
        tuple(value for value in read if value.name not in made),
        returns,
        tuple(value for value in keeps if value.name in made and value not in returns),
    )


def _steps(trace: TraceCtx, reasons: _Reasons | None) -> Iterator[Step]:
    for bsym in trace.bound_symbols:
        region = region_of(bsym)
        if region is not None:
            symbols = tuple(_symbol(part, None) for part in bsym.subsymbols)
        elif is_bookkeeping(bsym):
            continue
        else:
            symbols = (_symbol(bsym, _why(bsym, reasons)),)
        reads, makes = _values(bsym.flat_proxy_args), _values(bsym.flat_proxy_outs)
        yield Step(region, symbols, reads, makes, _inside(bsym, region))


def _inside(bsym: BoundSymbol, region: FusedRegion | None) -> dict[str, str]:
    if region is None:
        return {}
    pairs = [*zip(bsym.flat_args, region.inputs, strict=True)]
    pairs += zip(bsym.flat_outs, region.outputs, strict=True)
    return {outer.name: inner.name for outer, inner in pairs if isinstance(outer, TensorProxy)}


def _symbol(bsym: BoundSymbol, reason: str | None) -> Symbol:
    file, line = place_of(bsym) or (None, None)
    return Symbol(bsym.sym.name, tuple(p.name for p in bsym.flat_proxy_outs), reason, file, line)


def _why(bsym: BoundSymbol, reasons: _Reasons | None) -> str:
    """What was entered for the symbol; None for `reasons` means that nobody asked us."""
    if reasons is None:
        return "thunder_fuser is not among the executors"
    reason = take_reason(reasons, bsym)
    if reason is not None:
        return reason
    executor = bsym.sym.executor
    return f"taken by executor {executor.name}" if executor else f"no rule for {bsym.sym.name}"


def _results(trace: TraceCtx) -> tuple[tuple[Value, ...], tuple[Value, ...]]:
    """What the caller gets, and what is saved for the backward."""
    last = trace.bound_symbols[-1]
    assert prim_name(last) in ("RETURN", "PYTHON_RETURN")
    result, *saved = last.args or (None,)
    if isinstance(result, dict):  # beside the output stand the arguments
        result = result["output"]
    return _values(tree_leaves(result)), _values(tree_leaves(saved))


def _values(proxies: Any) -> tuple[Value, ...]:
    found = (Value(p.name, _type(p), bytes_of(p)) for p in tensors(proxies))
    return tuple(dict.fromkeys(found))


def _type(proxy: TensorProxy) -> str:
    extents = ", ".join(str(getattr(n, "value", n)) for n in proxy.shape)
    return f"{proxy.dtype.shortname()}[{extents}]"
