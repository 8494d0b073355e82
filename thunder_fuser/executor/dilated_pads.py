"""Pads, of which some are between elements: the gradient of a slice with a stride is one.

    pad(a, 0, ((1, 0, 1),))    =>    reshape(pad(a[:, None], [1, 0, 0, 0]), -1)

An element and what follows or precedes it up to the next one is a period, the row of a new axis.
What fills a period is a plain pad, and so are whole periods before the first one and behind the
last. What the last one has too much is cut off.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from thunder.core.proxies import Proxy
from thunder.core.symbol import BoundSymbol

Config = Sequence[tuple[int, int, int]]


def pad_refusal(bsym: BoundSymbol) -> str | None:
    """Why a region cannot hold PAD (a, value, ((lo, hi, dilation), ...)), None if it can."""
    a, _, config = bsym.args
    for extent, (lo, hi, dilation) in zip(a.shape, config, strict=True):
        if isinstance(dilation, Proxy):
            return "padding between elements, of a width that is not static"
        if dilation and any(isinstance(n, Proxy) for n in (extent, lo, hi)):
            return "padding between elements, of an extent that is not static"
        if dilation and min(lo, hi) < 0:
            return "padding between elements that is cut off"
    return None


def with_extents(args: Sequence[Any], kwargs: Any) -> tuple[Sequence[Any], dict[str, Any]]:
    """The arguments of a pad, and the extents of what is padded."""
    a, value, config = args
    return (a, value, config, tuple(a.shape)), {}


def pad(ops: Any, a: Any, value: Any, config: Config, extents: Sequence[Any]) -> Any:
    """As Thunder's; where an axis has no two elements, nothing is between them."""
    is_dilated = [bool(d) and n > 1 for n, (_, _, d) in zip(extents, config, strict=True)]
    if not any(is_dilated):
        return ops.pad(a, _last_first([(lo, hi) for lo, hi, _ in config]), value)
    flags: list[bool] = []  # of the axes with those of the periods between them
    widths: list[tuple[int, int]] = []  # of these
    shape: list[int] = []  # of whole periods
    excess: list[tuple[int, int]] = []
    for n, (lo, hi, dilation), splits in zip(extents, config, is_dilated, strict=True):
        if not splits:
            flags, widths = [*flags, False], [*widths, (lo, hi)]
            shape, excess = [*shape, lo + n + hi], [*excess, (0, 0)]
            continue
        step, total = dilation + 1, lo + (n - 1) * (dilation + 1) + 1 + hi
        before, phase = divmod(lo, step)
        periods = -(-total // step)
        flags += [False, True]
        widths += [(before, periods - n - before), (phase, dilation - phase)]
        shape.append(periods * step)
        excess.append((0, total - periods * step))
    spread = ops.pad(ops.broadcast(a, flags), _last_first(widths), value)
    whole = ops.reshape(spread, shape)
    return ops.pad(whole, _last_first(excess)) if any(map(any, excess)) else whole


def _last_first(widths: Sequence[tuple[Any, Any]]) -> list[Any]:
    return [width for pair in reversed(widths) for width in pair]
