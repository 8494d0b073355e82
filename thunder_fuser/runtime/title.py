"""What a segment is called in messages: its region, what it writes, and the user's lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ir.text import print_type, tensor_names
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.segment.segmented import SegmentedFusion

MAX_LINES = 4  # tensors of a segment that a message lists

Place = Callable[[TensorView], "str | None"]


def places(
    origin: Origin, bound: Mapping[TensorView, TensorView], before: Fusion, after: Fusion
) -> Place:
    """The user's line for tensors of a concrete fusion, which `bound` maps the original ones to.

    `after` is the fusion `before` once it was rewritten; their outputs pair up.
    """
    original = {concrete: tv for tv, concrete in bound.items()}
    for old, new in zip(before.outputs, after.outputs, strict=True):
        if old in original:
            original.setdefault(new, original[old])

    def place(tv: TensorView) -> str | None:
        return origin.place(original[tv]) if tv in original else None

    return place


def titles(region: str, segmented: SegmentedFusion) -> tuple[str, ...]:
    """`region TF0, segment 1 of 2`, counted from 0: one title per segment."""
    count = len(segmented.segments)
    return tuple(f"region {region}, segment {k} of {count}" for k in range(count))


def describe(segmented: SegmentedFusion, position: int, place: Place) -> str:
    """The ops that a segment ends in, a line each, with the user's lines where they are known.

    T7: bf16[i4, i8] = add(T5, T6)  at model.py:12: return a + b
    """
    names = tensor_names(segmented.fusion)
    segment = segmented.segments[position]
    stored = [s.value for s in segment.stores]
    lines = [_line(tv, names, place) for tv in stored[:MAX_LINES]]
    if len(stored) > MAX_LINES:
        lines.append(f"  and {len(stored) - MAX_LINES} more")
    return "\n".join(lines)


def line_of(segmented: SegmentedFusion, tv: TensorView, place: Place) -> str:
    """One op of a region as `describe` shows it."""
    return _line(tv, tensor_names(segmented.fusion), place)


def _line(tv: TensorView, names: Mapping[TensorView, str], place: Place) -> str:
    op = "" if tv.definition is None else f" = {tv.definition.op.name}({_inputs(tv, names)})"
    return f"  {names.get(tv, '?')}: {print_type(tv)}{op}{_where(tv, place)}"


def _inputs(tv: TensorView, names: Mapping[TensorView, str]) -> str:
    return ", ".join(names.get(v, "?") for v in tv.expr.tensors)


def _where(tv: TensorView, place: Place) -> str:
    """The line of the op, else that of the nearest op before it: Thunder does not know them all."""
    own = place(tv)
    if own is not None:
        return f"  at {own}"
    for before in reversed(list(topological((tv,)))):
        if (found := place(before)) is not None:
            return f"  after {found}"
    return ""
