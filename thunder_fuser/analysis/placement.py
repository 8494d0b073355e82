"""Where the elements of a tensor live on a mesh, in the words of DTensor.

    x: [i96, i32] on mesh[2, 4]
      (S(0), S(1))                   mesh dim 0 cuts rows, mesh dim 1 columns
      (S(0), S(0))                   rows in 2 blocks, each again in 4
      (S(0, strided by 4), S(0))     rows as [4, 2, 12]: 4 on mesh dim 1, 2 on mesh dim 0

Placements apply left to right, each to what the ones before left on the device. In the loop domain
a placement is a split whose device axis carries DIDx, DIDy or DIDz (`ir/mesh.py`).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from thunder_fuser.ir.domain import IterDomain, merge, parallelize, split
from thunder_fuser.ir.mesh import DeviceMesh
from thunder_fuser.ops.reductions import REDUCTIONS


@dataclass(frozen=True)
class Replicate:
    """Every device along the mesh dim holds all of it."""

    def __str__(self) -> str:
        return "R"


@dataclass(frozen=True)
class Shard:
    """`axis` in d consecutive blocks of ceil(N/d); the last ones may be short or empty."""

    axis: int

    def __str__(self) -> str:
        return f"S({self.axis})"


@dataclass(frozen=True)
class StridedShard:
    """`axis` as [split_factor, d, c]: each of `split_factor` equal consecutive blocks is cut in d.
    With c = 1 this is an inner split by d, and the last block may be short."""

    axis: int
    split_factor: int

    def __str__(self) -> str:
        return f"S({self.axis}, strided by {self.split_factor})"


@dataclass(frozen=True)
class Partial:
    """Every device holds a term; the value is their `op` (the name of a reduction row)."""

    op: str = "sum"

    def __str__(self) -> str:
        return f"P({self.op})"


Placement: TypeAlias = Replicate | Shard | StridedShard | Partial

_SHARD = re.compile(r"_?S\((-?\d+)(?:, (?:strided by )?(\d+))?\)")
_PARTIAL = re.compile(r"P\((\w+)\)")


def placement_from(text: str, rank: int) -> Placement:
    """The placement that prints as `text`, of a tensor of `rank`; a negative axis counts from the
    end. torch's own texts (`S(0)`, `_S(0, 3)`, `R`, `P(sum)`) are understood too.

    Raises ValueError for any other text.
    """
    if text == "R":
        return Replicate()
    if found := _SHARD.fullmatch(text):
        axis = int(found[1])
        axis += rank if -rank <= axis < 0 else 0
        return Shard(axis) if found[2] is None else StridedShard(axis, int(found[2]))
    found = _PARTIAL.fullmatch(text)
    if found and any(row.name == found[1] for row in REDUCTIONS):
        return Partial(found[1])
    raise ValueError(
        f"{text!r} is no placement; legal: 'R', 'S(axis)', 'S(axis, strided by m)', 'P(sum)'"
    )


@dataclass(frozen=True)
class Sharding:
    """One placement per mesh dim."""

    mesh: DeviceMesh
    placements: tuple[Placement, ...]

    @cached_property
    def _hash(self) -> int:
        return hash((self.mesh, self.placements))

    def __hash__(self) -> int:  # computed once: every edge looks its sharding up
        return self._hash

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.placements))})"


def replicated(mesh: DeviceMesh) -> Sharding:
    return Sharding(mesh, (Replicate(),) * mesh.ndim)


def split_factor(placement: Shard | StridedShard) -> int:
    return placement.split_factor if isinstance(placement, StridedShard) else 1


def sharded(axis: int, factor: int) -> Shard | StridedShard:
    return Shard(axis) if factor == 1 else StridedShard(axis, factor)


def check(sharding: Sharding, rank: int, what: str) -> None:
    """Raise ValueError, naming `what`, where placements and mesh or tensor rank contradict."""
    mesh, placements = sharding.mesh, sharding.placements
    if len(placements) != mesh.ndim:
        raise ValueError(
            f"{what}: {len(placements)} placements {sharding} for {mesh}, which has {mesh.ndim} "
            "dims; give one placement per mesh dim"
        )
    for dim, placement in enumerate(placements):
        if isinstance(placement, Shard | StridedShard):
            if not 0 <= placement.axis < rank:
                raise ValueError(
                    f"{what}: {placement} on mesh dim {mesh.dim_name(dim)} names axis "
                    f"{placement.axis} of a tensor of rank {rank}"
                )
            if split_factor(placement) < 1:
                raise ValueError(
                    f"{what}: split factor {split_factor(placement)} on mesh dim "
                    f"{mesh.dim_name(dim)} must be positive"
                )


def device_loop(logical: Sequence[IterDomain], sharding: Sharding) -> tuple[IterDomain, ...]:
    """The loop domain that `sharding` means: device axes first, then the local axes in order.

    [i24] on mesh[2] as S(0)                 =>    [DIDx{2}, i{12}]
    [i24] on mesh[2] as S(0, strided by 3)   =>    [DIDx{2}, i{3*4}]
    """
    check(sharding, len(logical), "device_loop")
    local, devices = list(logical), []
    for dim, placement in enumerate(sharding.placements):
        if not isinstance(placement, Shard | StridedShard):
            continue
        here, factor = local[placement.axis], split_factor(placement)
        block = here
        if factor > 1:
            blocks, block = split(here, factor, inner=False)
        device, rest = split(block, sharding.mesh.shape[dim], inner=False)
        devices.append(parallelize(device, sharding.mesh.parallel_type(dim)))
        local[placement.axis] = merge(blocks, rest) if factor > 1 else rest
    return (*devices, *local)
