"""Where every element is, as digit forms, and back from a form to a placement.

    x: [i24] as S(0, strided by 3) on mesh[2]      device = (i/4)%2     local index = 4*(i/8) + i%4

A tensor is located relative to whatever axes its index is given in. Two tensors of an edge, located
in the consumer's axes, are aligned where their device forms are equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thunder_fuser.analysis.blocks import (
    Cut,
    factors,
    is_even,
    is_regular,
    local_extent,
    local_size,
    take,
)
from thunder_fuser.analysis.digits import Form, atom
from thunder_fuser.analysis.placement import (
    Shard,
    Sharding,
    StridedShard,
    check,
    device_loop,
    sharded,
    split_factor,
)
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import IterDomain, TensorDomain
from thunder_fuser.ir.tensor import TensorView


@dataclass(frozen=True)
class Location:
    """`devices` has the coordinate on each mesh dim, None where every device holds the element.
    `last` is the last cut and its axis; the buffer is what that leaves of `before` and `sizes`."""

    devices: tuple[Form | None, ...]
    before: tuple[Form, ...]
    sizes: tuple[int, ...]
    last: tuple[int, Cut] | None

    @property
    def local(self) -> tuple[Form, ...]:
        """The index in the buffer of one device, per axis."""
        if self.last is None:
            return self.before
        k, cut = self.last
        return (*self.before[:k], cut.local, *self.before[k + 1 :])

    @property
    def extents(self) -> tuple[int, ...]:
        """The size of the buffer of the first device, per axis."""
        if self.last is None:
            return self.sizes
        k, cut = self.last
        return (*self.sizes[:k], cut.extent, *self.sizes[k + 1 :])


def locate(sharding: Sharding, index: Sequence[Form], extents: Sequence[int]) -> Location:
    """The location of the element at `index` of a tensor of `extents`."""
    found = Location((), tuple(index), tuple(extents), None)
    for count, placement in zip(sharding.mesh.shape, sharding.placements, strict=True):
        if count == 1 or not isinstance(placement, Shard | StridedShard):
            found = Location((*found.devices, None), found.before, found.sizes, found.last)
            continue
        k, local, sizes = placement.axis, found.local, found.extents
        cut = take(local[k], sizes[k], split_factor(placement), count)
        found = Location((*found.devices, cut.device), local, sizes, (k, cut))
    return found


def local_shape(
    sharding: Sharding, extents: Sequence[int], where: Sequence[int]
) -> tuple[int, ...]:
    """The shape of the buffer of the device at coordinates `where`: what a DTensor's local tensor
    must have, uneven and empty shards included. `check_sizes` has admitted the sharding."""
    sizes = list(extents)
    for count, placement, rank in zip(sharding.mesh.shape, sharding.placements, where, strict=True):
        if isinstance(placement, Shard | StridedShard):
            k = placement.axis
            sizes[k] = local_size(sizes[k], split_factor(placement), count, rank)
    return tuple(sizes)


@dataclass(frozen=True)
class Placed:
    """A placement and the cut that it makes of its axis."""

    placement: Shard | StridedShard
    cut: Cut


def place(device: Form, local: Sequence[Form], extents: Sequence[int], count: int) -> Placed | None:
    """The placement whose device form is `device`, for a tensor whose index is `local` so far.
    None where there is none: what is found is checked by equality of forms, never guessed."""
    for axis, (index, extent) in enumerate(zip(local, extents, strict=True)):
        for factor in factors(device, index, extent, count):
            cut = take(index, extent, factor, count)
            if cut.device == device:
                return Placed(sharded(axis, factor), cut)
    return None


def annotated(tv: TensorView, sharding: Sharding) -> TensorView:
    """`tv` with `sharding` written into its loop domain. It is a new tensor: annotate where it is
    defined, before anything reads it."""
    loop = device_loop(tv.logical, sharding)
    return replace(tv, domain=replace(tv.domain, loop=loop))


def atoms(domain: TensorDomain) -> dict[IterDomain, Form]:
    """Every logical axis as itself."""
    return {a: atom(a) for a in domain.logical}


def check_sizes(sharding: Sharding, extents: Sequence[sc.Scalar], what: str) -> tuple[int, ...]:
    """The extents as numbers. Raises ValueError, naming `what`, for a symbolic extent, for an empty
    tensor on several devices, for blocks of different sizes, and for a second cut of an axis that
    the first has left uneven: shards of different sizes cannot be cut alike."""
    check(sharding, len(extents), what)
    sizes = [sc.static_int(e) for e in extents]
    known = [s for s in sizes if s is not None]
    if len(known) < len(sizes):
        raise ValueError(
            f"{what}: extents ({', '.join(map(str, extents))}) are not all known; placements need "
            "numbers: define the tensor with numbers in place of -1 (bind the symbols)"
        )
    if 0 in known and sharding.mesh.size > 1:
        raise ValueError(
            f"{what}: {known} is empty, there is nothing to place on {sharding.mesh}; leave the "
            "mesh out"
        )
    left = list(known)
    uneven: set[int] = set()
    for count, placement in zip(sharding.mesh.shape, sharding.placements, strict=True):
        if count == 1 or not isinstance(placement, Shard | StridedShard):
            continue
        k, factor = placement.axis, split_factor(placement)
        if k in uneven:
            raise ValueError(
                f"{what}: axis {k} of extent {known[k]} is cut twice in {sharding}, and the first "
                f"cut is uneven; pad the axis to a multiple of {sharding.mesh.size}"
            )
        if not is_regular(left[k], factor, count):
            raise ValueError(
                f"{what}: axis {k} of extent {left[k]} in {sharding} does not make {factor} equal "
                f"blocks; pad it to a multiple of {factor}"
            )
        if not is_even(left[k], factor, count):
            uneven.add(k)
        left[k] = local_extent(left[k], factor, count)
    return tuple(known)
