"""Iteration domains: axes and the transforms that make axes out of axes.

    i0{24}                                   InnerSplit(6) of i0:  i1{4}, i2{6}
    i1, i2 = split(i0, 6)              =>    index of i1 = i0 / 6,  of i2 = i0 % 6

Axes compare by identity: two axes of extent 8 are two axes, and whether they run over the same
elements is what `analysis/` decides. An axis points to the transform that made it, the transform to
its inputs; nothing points forward.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.scalar import Scalar


class IterType(Enum):
    ITERATION = "i"
    REDUCTION = "r"
    BROADCAST = "b"  # no data along the axis: extent 1, or expanded to more


class ParallelType(Enum):
    SERIAL = "serial"
    UNROLL = "unroll"
    VECTORIZE = "vectorize"
    DIDX = "deviceIdx.x"
    DIDY = "deviceIdx.y"
    DIDZ = "deviceIdx.z"

    @property
    def is_device(self) -> bool:
        return self in (ParallelType.DIDX, ParallelType.DIDY, ParallelType.DIDZ)


@dataclass(frozen=True, eq=False)
class IterDomain:
    """One axis. `position` says which output of `definition` it is (0 outer, 1 inner)."""

    extent: Scalar
    iter_type: IterType = IterType.ITERATION
    parallel_type: ParallelType = ParallelType.SERIAL
    definition: Transform | None = None
    position: int = 0

    @property
    def size(self) -> int:
        """The extent of an axis of a concrete fusion. Raises AssertionError for a symbolic one."""
        value = sc.static_int(self.extent)
        assert value is not None, f"extent {self.extent} is symbolic"
        return value

    @property
    def is_broadcast(self) -> bool:
        return self.iter_type is IterType.BROADCAST

    @property
    def is_reduction(self) -> bool:
        return self.iter_type is IterType.REDUCTION

    @property
    def is_unit(self) -> bool:
        return sc.is_constant(self.extent, 1)


@dataclass(frozen=True, eq=False)
class Split:
    """i{N} -> (i / c, i % c): inner split, extents (ceil(N/f), f) with c = f; outer split, extents
    (f, c) with c = ceil(N/f)."""

    input: IterDomain
    factor: Scalar
    inner: bool = True

    @property
    def inputs(self) -> tuple[IterDomain, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=False)
class Merge:
    """(x{A}, y{B}) -> x * B + y, extent A * B."""

    outer: IterDomain
    inner: IterDomain

    @property
    def inputs(self) -> tuple[IterDomain, ...]:
        return (self.outer, self.inner)


@dataclass(frozen=True, eq=False)
class Resize:
    """i{N} -> i + left, extent N + left + right; valid where the result lies inside the extent.
    A slice [s, e) of N is Resize(-s, e - N); a pad by (l, r) is Resize(l, r)."""

    input: IterDomain
    left: Scalar
    right: Scalar

    @property
    def inputs(self) -> tuple[IterDomain, ...]:
        return (self.input,)


@dataclass(frozen=True, eq=False)
class Flip:
    """i{N} -> N - 1 - i."""

    input: IterDomain

    @property
    def inputs(self) -> tuple[IterDomain, ...]:
        return (self.input,)


Transform: TypeAlias = Split | Merge | Resize | Flip


def axis(extent: int | Scalar, iter_type: IterType = IterType.ITERATION) -> IterDomain:
    """A fresh axis."""
    return IterDomain(sc.constant(extent) if isinstance(extent, int) else extent, iter_type)


def axis_of(extent: Scalar) -> IterDomain:
    """A fresh axis: a broadcast where it has one element."""
    return axis(extent, IterType.BROADCAST if sc.is_constant(extent, 1) else IterType.ITERATION)


def like(source: IterDomain) -> IterDomain:
    """A fresh axis that runs over the same extent as `source`."""
    return IterDomain(source.extent, source.iter_type)


def split(
    input: IterDomain, factor: int | Scalar, inner: bool = True
) -> tuple[IterDomain, IterDomain]:
    """The outer and the inner axis of a split."""
    factor = sc.constant(factor) if isinstance(factor, int) else factor
    made, other = Split(input, factor, inner), sc.ceil_div(input.extent, factor)
    outer_extent, inner_extent = (other, factor) if inner else (factor, other)
    return (
        IterDomain(outer_extent, input.iter_type, definition=made, position=0),
        IterDomain(inner_extent, input.iter_type, definition=made, position=1),
    )


def merge(outer: IterDomain, inner: IterDomain) -> IterDomain:
    both_broadcast = outer.is_broadcast and inner.is_broadcast
    iter_type = IterType.BROADCAST if both_broadcast else IterType.ITERATION
    if outer.is_reduction:
        iter_type = IterType.REDUCTION
    return IterDomain(sc.mul(outer.extent, inner.extent), iter_type, definition=Merge(outer, inner))


def resize(input: IterDomain, left: int | Scalar, right: int | Scalar) -> IterDomain:
    left = sc.constant(left) if isinstance(left, int) else left
    right = sc.constant(right) if isinstance(right, int) else right
    extent = sc.add(sc.add(input.extent, left), right)
    return IterDomain(extent, IterType.ITERATION, definition=Resize(input, left, right))


def flip(input: IterDomain) -> IterDomain:
    return IterDomain(input.extent, IterType.ITERATION, definition=Flip(input))


@dataclass(frozen=True, eq=False)
class TensorDomain:
    """The axes of a tensor in its four roles.

    `root` relates one to one to the producers' logical axes, `logical` is what the user sees,
    `allocation` is how the bytes lie (outermost first), `loop` is the schedule. `contiguity` has an
    entry per allocation axis: stride equals that of the axes to its right, None for a broadcast.
    """

    root: tuple[IterDomain, ...]
    logical: tuple[IterDomain, ...]
    allocation: tuple[IterDomain, ...]
    loop: tuple[IterDomain, ...]
    contiguity: tuple[bool | None, ...]

    @cached_property
    def transforms(self) -> tuple[Transform, ...]:
        """Every transform between root and logical, consumers before producers: the order in which
        an index walks backward."""
        order: dict[Transform, None] = {}
        stack = [(a, False) for a in self.logical]
        while stack:
            current, expanded = stack.pop()
            if current.definition is None or current.definition in order:
                continue
            if expanded:
                order[current.definition] = None
            else:
                stack.append((current, True))
                stack += [(i, False) for i in current.definition.inputs]
        return tuple(reversed(order))

    @cached_property
    def without_reductions(self) -> tuple[IterDomain, ...]:
        """The logical axes that a consumer of this tensor sees."""
        return tuple(a for a in self.logical if not a.is_reduction)


@dataclass(frozen=True)
class Derived:
    """A consumer's domain and the axis map of each tensor input."""

    domain: TensorDomain
    axis_maps: tuple[tuple[int | None, ...], ...]


def tensor_domain(
    logical: Sequence[IterDomain],
    root: Sequence[IterDomain] | None = None,
    allocation: Sequence[IterDomain] | None = None,
    contiguity: Sequence[bool | None] | None = None,
) -> TensorDomain:
    """A domain whose unstated parts follow from `logical`: dense, row-major, unscheduled."""
    logical = tuple(logical)
    visible = tuple(a for a in logical if not a.is_reduction)
    allocation = visible if allocation is None else tuple(allocation)
    if contiguity is None:
        contiguity = tuple(None if a.is_broadcast else True for a in allocation)
    return TensorDomain(
        logical if root is None else tuple(root), logical, allocation, visible, tuple(contiguity)
    )


def parallelize(input: IterDomain, parallel_type: ParallelType) -> IterDomain:
    """The same axis bound to a hardware or device index. It is a new identity."""
    return replace(input, parallel_type=parallel_type)
