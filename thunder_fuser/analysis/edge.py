"""One producer-consumer edge: do device digits line up, and where could the other side have them?

    case 3   T1[i8] = slice(T0[i24], 8, 16)     T0 as S(0, strided by 3) on mesh[2]
             device of T0 in T1's axis j: ((j + 8)/4)%2 = j/4, so T1 is S(0): no communication

Both sides are located in the consumer's logical axes. Decisions are made per edge and never closed
over edges: equality through a window holds on that window only (docs/axes.md, section 5).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from math import prod

from thunder_fuser.analysis.blocks import turn
from thunder_fuser.analysis.digits import Form, add, atom, scale
from thunder_fuser.analysis.index_map import Window, edges_from
from thunder_fuser.analysis.placement import (
    Partial,
    Placement,
    Replicate,
    Shard,
    Sharding,
    StridedShard,
    split_factor,
)
from thunder_fuser.analysis.sharding import Location, atoms, locate, place
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family


@dataclass(frozen=True, eq=False)
class AxisEdge:
    """`index` is the producer's logical index in the consumer's logical axes, reduced ones
    included, valid inside `windows`; both shapes are static."""

    producer: TensorView
    consumer: TensorView
    operand: int
    index: tuple[Form, ...]
    windows: tuple[Window, ...] = ()
    _sources: dict[Sharding, Location] = field(default_factory=dict, repr=False)
    _targets: dict[Sharding, Location] = field(default_factory=dict, repr=False)

    @cached_property
    def own(self) -> tuple[Form, ...]:
        """The consumer's own index: its visible axes."""
        return tuple(atom(a) for a in self.consumer.logical)

    @cached_property
    def reduced(self) -> frozenset[IterDomain]:
        return frozenset(a for a in self.consumer.domain.logical if a.is_reduction)

    @cached_property
    def bases(self) -> frozenset[IterDomain]:
        """The consumer axes that the producer depends on."""
        return frozenset().union(*(form.bases for form in self.index))

    @property
    def is_view(self) -> bool:
        expr = self.consumer.definition
        return expr is not None and expr.op.family is Family.VIEW

    @property
    def keeps_partial(self) -> bool:
        """True for views that repeat nothing: they commute with a pending reduction over devices,
        and reducing after them sends no more than before."""
        return self.is_view and prod(self.consumer.shape) <= prod(self.producer.shape)

    def from_producer(self, sharding: Sharding) -> Location:
        """Where the producer's elements are, as functions of the consumer's axes."""
        found = self._sources.get(sharding)
        if found is None:
            found = self._sources[sharding] = locate(sharding, self.index, self.producer.shape)
        return found

    def from_consumer(self, sharding: Sharding) -> Location:
        """Where the consumer's elements are, as functions of its axes."""
        found = self._targets.get(sharding)
        if found is None:
            found = self._targets[sharding] = locate(sharding, self.own, self.consumer.shape)
        return found


def axis_edges(consumer: TensorView) -> tuple[AxisEdge, ...]:
    """The edge to each tensor input of `consumer`."""
    found = edges_from(consumer, atoms(consumer.domain))
    return tuple(AxisEdge(e.producer, consumer, k, e.index, e.windows) for k, e in enumerate(found))


def forward(edge: AxisEdge, sharding: Sharding) -> tuple[Placement | None, ...]:
    """What the producer's `sharding` means for the consumer, per mesh dim; None where no placement
    keeps every element on its device."""
    return _carry(
        edge.from_producer(sharding).devices, sharding, edge.own, edge.consumer.shape, edge
    )


def backward(edge: AxisEdge, sharding: Sharding) -> tuple[Placement | None, ...]:
    """What the consumer's `sharding` asks of the producer, per mesh dim; None where no placement
    has every element on the device that needs it. A mesh dim along which all of the producer is
    needed (it is broadcast there) asks for a replica."""
    return _carry(
        edge.from_consumer(sharding).devices, sharding, edge.index, edge.producer.shape, None, edge
    )


def _carry(
    devices: Sequence[Form | None],
    sharding: Sharding,
    index: Sequence[Form],
    extents: Sequence[int],
    reducing: AxisEdge | None = None,
    reading: AxisEdge | None = None,
) -> tuple[Placement | None, ...]:
    """Place `devices` on the tensor with `index`, left to right, each on what is left of it."""
    local, sizes = list(index), list(extents)
    found: list[Placement | None] = []
    uneven: set[int] = set()
    for device, placement, count in zip(
        devices, sharding.placements, sharding.mesh.shape, strict=True
    ):
        if device is None:
            found.append(_uncut(placement, reducing))
            continue
        if reducing is not None and device.bases and device.bases <= reducing.reduced:
            found.append(_pending(reducing.consumer))
            continue
        if reading is not None and not device.bases & reading.bases:
            found.append(Replicate())
            continue
        made = place(device, local, sizes, count)
        if made is None or made.placement.axis in uneven:
            found.append(None)
            continue
        k = made.placement.axis
        found.append(made.placement)
        if len(found) < len(devices):  # another mesh dim cuts what is left
            if sizes[k] != made.cut.extent * count:
                uneven.add(k)  # shards of different sizes cannot be cut alike once more
            local[k], sizes[k] = made.cut.local, made.cut.extent
    return tuple(found)


def _uncut(placement: Placement, reducing: AxisEdge | None) -> Placement | None:
    """A mesh dim that cuts nothing: a pending reduction passes through views and nothing else."""
    if isinstance(placement, Partial):
        return placement if reducing is not None and reducing.keeps_partial else None
    return Replicate()


def _pending(consumer: TensorView) -> Partial | None:
    """What a cut reduced axis leaves to do; None where terms of devices cannot be combined."""
    row = consumer.expr.op
    return Partial(row.name) if row.combine else None


def turned(edge: AxisEdge, sharding: Sharding, dim: int) -> tuple[Form, int] | None:
    """`turn` of the producer along mesh dim `dim`."""
    placement, counts = sharding.placements[dim], sharding.mesh.shape
    if counts[dim] == 1 or not isinstance(placement, Shard | StridedShard):
        return None
    before = Sharding(
        sharding.mesh, (*sharding.placements[:dim], *_REPLICATE * (len(counts) - dim))
    )
    location = edge.from_producer(before)
    k = placement.axis
    return turn(location.local[k], location.extents[k], split_factor(placement), counts[dim])


_REPLICATE = (Replicate(),)


def local_starts(edge: AxisEdge, source: Sharding, target: Sharding) -> tuple[int, ...] | None:
    """Where the consumer's buffer begins in the producer's, per producer axis, when the local
    index of one is that of the other plus a constant: the local view of an aligned slice starts at
    s/d (docs/axes.md, B). None where the edge is no window."""
    mine, theirs = edge.from_producer(source), edge.from_consumer(target)
    if len(mine.local) != len(theirs.local):
        return None
    starts = []
    for p, c in zip(mine.local, theirs.local, strict=True):
        difference = add(p, scale(c, -1))
        if not difference.is_constant:
            return None
        starts.append(difference.constant)
    return tuple(starts)
