"""Where every element is, as digit forms, and back from a form to a placement.

    x: [i24] as S(0, strided by 3) on mesh[2]      device = (i/4)%2     local index = 4*(i/8) + i%4

A tensor is located relative to whatever axes its index is given in. Two tensors of an edge, located
in the consumer's axes, are aligned where their device forms are equal.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.axis_forms import AxisForms
from thunder_fuser.analysis.digits import ZERO, Form, atom, ceil_div, combine, divmod_form
from thunder_fuser.analysis.placement import (
    Partial,
    Placement,
    Replicate,
    Shard,
    Sharding,
    StridedShard,
    check,
    sharded,
    split_factor,
)
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.domain import IterDomain, TensorDomain
from thunder_fuser.ir.mesh import DeviceMesh


@dataclass(frozen=True)
class Location:
    """`devices` has the coordinate on each mesh dim, None where every device holds the element;
    `local` and `extents` are the index in, and the size of, the buffer of the first device."""

    devices: tuple[Form | None, ...]
    local: tuple[Form, ...]
    extents: tuple[int, ...]


def locate(sharding: Sharding, index: Sequence[Form], extents: Sequence[int]) -> Location:
    """The location of the element at `index` of a tensor of `extents`."""
    local, sizes = list(index), list(extents)
    devices: list[Form | None] = []
    for count, placement in zip(sharding.mesh.shape, sharding.placements, strict=True):
        if count == 1 or not isinstance(placement, Shard | StridedShard):
            devices.append(None)
            continue
        k = placement.axis
        device, local[k], sizes[k] = take(local[k], sizes[k], split_factor(placement), count)
        devices.append(device)
    return Location(tuple(devices), tuple(local), tuple(sizes))


def take(index: Form, extent: int, factor: int, count: int) -> tuple[Form, Form, int]:
    """Cut `index` as [factor, count, rest]: the middle digit, the local index, its extent.

    The index is known to lie in [0, extent); where its form does not say so (a piece of a cat), the
    device is still one of `count`.
    """
    block = ceil_div(extent, factor)
    outer, within = divmod_form(index, block) if factor > 1 else (ZERO, index)
    rest = ceil_div(block, count)
    device, inner = divmod_form(within, rest)
    low, high = device.bounds
    if low < 0 or high >= count:
        device = divmod_form(device, count)[1]
    if factor == 1:
        return device, inner, rest
    return device, combine(outer, inner, rest), factor * rest


@dataclass(frozen=True)
class Placed:
    """A placement and what it leaves of its axis: the local index and its extent."""

    placement: Shard | StridedShard
    index: Form
    extent: int


def place(device: Form, local: Sequence[Form], extents: Sequence[int], count: int) -> Placed | None:
    """The placement whose device form is `device`, for a tensor whose index is `local` so far.
    None where there is none: what is found is checked by equality of forms, never guessed."""
    for axis, (index, extent) in enumerate(zip(local, extents, strict=True)):
        for factor in _factors(device, index, extent, count):
            found, rest, left = take(index, extent, factor, count)
            if found == device:
                return Placed(sharded(axis, factor), rest, left)
    return None


def _factors(device: Form, index: Form, extent: int, count: int) -> Iterator[int]:
    """Split factors under which the device digit may be a digit of `index`."""
    if not device.terms or extent < 2:
        return
    wanted = device.terms[0][1]
    for weight, digit in index.terms:
        if digit.base != wanted.base or wanted.stride % digit.stride:
            continue
        rest = weight * (wanted.stride // digit.stride)
        span = weight * digit.extent
        if 0 < rest < extent:
            yield ceil_div(extent, rest * count)
        if 0 < span < extent:
            yield extent // span
    if device.bases <= index.bases:
        yield 1


def sharding_of(domain: TensorDomain, mesh: DeviceMesh, reduction: str = "sum") -> Sharding:
    """The placements that the device axes of a loop domain mean; a device axis that cuts a reduced
    axis is a partial `reduction`.

    Raises ValueError for a device axis that no placement expresses: a merge of two tensor axes, an
    extent that is not that of its mesh dim, two axes bound to one mesh dim.
    """
    visible = domain.without_reductions
    forms = AxisForms()
    local, extents = [forms.form(a) for a in visible], [a.size for a in visible]
    placements: list[Placement] = [Replicate()] * mesh.ndim
    for dim in _outermost_last(domain.loop, mesh, forms):
        (did,) = [a for a in domain.loop if a.parallel_type is mesh.parallel_type(dim)]
        count = mesh.shape[dim]
        if did.size != count:
            raise ValueError(
                f"{did.parallel_type.value} of extent {did.size} on mesh dim "
                f"{mesh.dim_name(dim)} of {count} devices: split the axis by {count}"
            )
        device = forms.form(did)
        if did.is_reduction:
            placements[dim] = Partial(reduction)
            continue
        if count == 1:
            continue
        found = place(device, local, extents, count)
        if found is None:
            raise ValueError(
                f"{did.parallel_type.value} of extent {count} is no shard of one axis of extents "
                f"{extents}: split one logical axis as [m, {count}, c]"
            )
        axis = found.placement.axis
        placements[dim], local[axis], extents[axis] = found.placement, found.index, found.extent
    return Sharding(mesh, tuple(placements))


def _outermost_last(loop: Sequence[IterDomain], mesh: DeviceMesh, forms: AxisForms) -> list[int]:
    """Mesh dims that have a device axis, in order; placements apply left to right."""
    bound = [a.parallel_type for a in loop if a.parallel_type.is_device]
    for kind in set(bound):
        if bound.count(kind) > 1:
            raise ValueError(f"two loop axes carry {kind.value}; a mesh dim cuts one axis")
    named = {mesh.parallel_type(dim): dim for dim in range(max(0, mesh.ndim - 3), mesh.ndim)}
    for kind in bound:
        if kind not in named:
            raise ValueError(f"{kind.value} names no dim of {mesh}")
    return sorted(named[kind] for kind in bound)


def atoms(domain: TensorDomain) -> dict[IterDomain, Form]:
    """Every logical axis as itself."""
    return {a: atom(a) for a in domain.logical}


def check_sizes(sharding: Sharding, extents: Sequence[sc.Scalar], what: str) -> tuple[int, ...]:
    """The extents as numbers. Raises ValueError, naming `what`, for a symbolic extent and for a
    second cut of an axis that the first has left uneven: shards of different sizes cannot be cut
    alike."""
    check(sharding, len(extents), what)
    sizes = [sc.static_int(e) for e in extents]
    known = [s for s in sizes if s is not None]
    if len(known) < len(sizes):
        raise ValueError(
            f"{what}: extents ({', '.join(map(str, extents))}) are not all known; placements need "
            "numbers, so bind the symbols (concretise the definition) before sharding it"
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
        if left[k] % (factor * count):
            uneven.add(k)
        left[k] = factor * ceil_div(ceil_div(left[k], factor), count)
    return tuple(known)
