"""What the transforms of axes have in common: identity, words, what they determine."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.extents import same_extent
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import Flip, IterDomain, Merge, Resize, Split, Transform
from thunder_fuser.ir.scalar import Scalar


def signature(transform: Transform) -> tuple[object, ...]:
    """What makes two transforms one, apart from their inputs. Split carries `inner`: an outer split
    by d and an inner split by ceil(N/d) differ in their declared extents (docs/axes.md, C)."""
    match transform:
        case Split(factor=factor, inner=inner):
            return (Split, factor, inner)
        case Merge():
            return (Merge,)
        case Resize(left=left, right=right):
            return (Resize, left, right)
        case Flip():
            return (Flip,)


def describe(transform: Transform) -> str:
    """The transform in words, without its axes."""
    match transform:
        case Split(factor=factor, inner=inner):
            return f"{'inner' if inner else 'outer'} split by {factor}"
        case Merge():
            return "merge"
        case Resize(left=left, right=right):
            return f"resize by ({left}, {right})"
        case Flip():
            return "flip"


def output_count(transform: Transform) -> int:
    """How many axes a transform makes."""
    return 2 if isinstance(transform, Split) else 1


def determines_inputs(
    transform: Transform, inputs: Sequence[tuple[IterDomain, IterDomain]]
) -> bool:
    """Do equal outputs leave no choice of inputs? A*B leaves A open unless one factor is known; a
    split leaves its extent open (5 and 8 both split into (2, 4)); a resize that cuts says nothing
    about the elements it cut."""
    equal = [same_extent(x.extent, y.extent) for x, y in inputs]
    match transform:
        case Merge():
            return any(equal)
        case Split() | Flip():
            return all(equal)
        case Resize(left=left, right=right):
            widths = (sc.static_int(left), sc.static_int(right))
            return all(equal) and all(w is not None and w >= 0 for w in widths)


def inner_extent(split: Split) -> Scalar:
    """The divisor of a split: extent of its inner axis."""
    return split.factor if split.inner else sc.ceil_div(split.input.extent, split.factor)
