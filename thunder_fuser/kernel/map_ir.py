"""The kernel of the map template: bodies, each run by a range of blocks.

A body decomposes the thread's number into loop indices, loads all vectors, computes lane by lane,
stores.

kernel(T0: bf16*, T1: bf16*) 64 blocks of 128
  blocks [0, 64) in 64 rounds
  1 blocks per round, axes i0{8192} lanes 8
    v0 = load T0[8*i0], 8 x bf16, 16 bytes at a time
    T0_0: f32 = v0[1*lane + 0]
    T1_0: f32 = exp(T0_0)
    w0[1*lane + 0] = T1_0
    store w0 -> T1[8*i0], 8 x bf16, 16 bytes at a time
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.digits import Form, ceil_div
from thunder_fuser.analysis.index_map import Window
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.kernel.signature import Pointer, ScalarParameter, print_parameters
from thunder_fuser.kernel.statements import (
    Assign,
    LaneStatement,
    VectorAccess,
    forms_of,
    print_access,
    print_statement,
)
from thunder_fuser.schedule.lagging import LaggingTile
from thunder_fuser.schedule.tiles import Tile


@dataclass(frozen=True)
class Turning:
    """What a body moves through shared memory: each access fills, or empties, the square of its
    name, `loads` before anything is computed, `stores` after it."""

    tile: Tile
    loads: tuple[VectorAccess, ...]
    stores: tuple[VectorAccess, ...]

    @property
    def shared_bytes(self) -> int:
        return sum(self.bytes_of(access) for access in (*self.loads, *self.stores))

    def bytes_of(self, access: VectorAccess) -> int:
        """Of the square of an access, behind which another one is aligned."""
        size = self.tile.elements * access.dtype.itemsize
        return ceil_div(size, MAX_ALIGNMENT) * MAX_ALIGNMENT


@dataclass(frozen=True)
class Body:
    """The work of one range of blocks. `axes` are outermost first; `lane` runs inside a thread.
    `before` has the indices that tensors hold and loads need, once for all lanes, `once` what is
    made of loads and is the same in all lanes. A thread `inside` of the window has another body for
    the same work, with less arithmetic on indices."""

    axes: tuple[IterDomain, ...]
    lane: IterDomain | None
    lanes: int
    loads: tuple[VectorAccess, ...]
    statements: tuple[LaneStatement, ...]
    stores: tuple[VectorAccess, ...]
    before: tuple[LaneStatement, ...] = ()
    once: tuple[Assign, ...] = ()
    turning: Turning | None = None
    inside: tuple[Window, Body] | None = None

    @property
    def threads(self) -> int:
        """Threads with work in this body, if each does one vector."""
        return prod(axis.size for axis in self.axes)

    def blocks(self, threads: int) -> int:
        """Blocks of so many threads."""
        if self.turning is None:
            return ceil_div(self.threads, threads)
        return prod(self.turning.tile.counts(self.axes))

    @property
    def names(self) -> dict[IterDomain, str]:
        found = {axis: f"i{k}" for k, axis in enumerate(self.axes)}
        if self.turning is not None:
            tile = self.turning.tile
            found |= {tile.turned_down: found[tile.down], tile.turned_across: found[tile.across]}
            found |= {tile.first: "first"} if isinstance(tile, LaggingTile) else {}
        return found if self.lane is None else {**found, self.lane: "lane"}

    @property
    def forms(self) -> tuple[Form, ...]:
        """Every form the body evaluates, or that inside does."""
        straight = () if self.inside is None else (self.inside[0].form, *self.inside[1].forms)
        return (*self.own_forms, *straight)

    @property
    def own_forms(self) -> tuple[Form, ...]:
        """Every form the body evaluates."""
        turned = () if self.turning is None else (*self.turning.loads, *self.turning.stores)
        accesses = (f for access in (*self.loads, *self.stores, *turned) for f in access.forms)
        stated = (f for s in (*self.before, *self.once, *self.statements) for f in forms_of(s))
        return (*accesses, *stated)


@dataclass(frozen=True)
class BlockRange:
    """Bodies that take turns over a range of blocks, `counts` blocks of each per round, so that
    blocks that run together work on the same lines."""

    bodies: tuple[Body, ...]
    counts: tuple[int, ...]
    rounds: int
    start: int  # the first block

    @property
    def length(self) -> int:
        """Blocks of one round."""
        return sum(self.counts)

    @property
    def end(self) -> int:
        return self.start + self.rounds * self.length


@dataclass(frozen=True)
class Kernel:
    """One launch. Bodies that write parts of the same tensors stand in one group and take turns;
    the groups follow one another, and the blocks of one that `is_reversed` come last to first."""

    pointers: tuple[Pointer, ...]
    scalars: tuple[ScalarParameter, ...]
    groups: tuple[tuple[Body, ...], ...]
    threads: int
    is_reversed: bool = False

    @property
    def ranges(self) -> tuple[BlockRange, ...]:
        """The block ranges of the groups."""
        made: list[BlockRange] = []
        for bodies in self.groups:
            blocks = [body.blocks(self.threads) for body in bodies]
            rounds = _rounds(blocks)
            counts = tuple(ceil_div(count, rounds) for count in blocks)
            made.append(BlockRange(bodies, counts, rounds, made[-1].end if made else 0))
        return tuple(made)

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return self.ranges[-1].end if self.groups else 0

    @property
    def shared_bytes(self) -> int:
        """Shared memory of a block, which runs one of the bodies."""
        turnings = [body.turning for group in self.groups for body in group]
        return max((t.shared_bytes for t in turnings if t is not None), default=0)

    def __str__(self) -> str:
        return print_kernel(self)


def _rounds(blocks: Sequence[int]) -> int:
    """How often bodies of so many blocks take turns: as often as the smallest has one. A single
    block does not make others wait for each other."""
    several = [count for count in blocks if count > 1]
    return min(several if len(several) > 1 else blocks)


def print_kernel(kernel: Kernel) -> str:
    given = print_parameters(kernel.pointers, kernel.scalars)
    lines = [f"kernel({given}) {kernel.blocks} blocks of {kernel.threads}"]
    lines[0] += ", the last one first" if kernel.is_reversed else ""
    for group in kernel.ranges:
        lines.append(f"  blocks [{group.start}, {group.end}) in {group.rounds} rounds")
        for body, count in zip(group.bodies, group.counts, strict=True):
            lines += _print_body(body, count)
    return "\n".join(lines)


def _print_body(body: Body, count: int) -> list[str]:
    names = body.names
    axes = ", ".join(f"{names[a]}{{{a.size}}}" for a in body.axes)
    lines = [f"  {count} blocks per round, axes {axes} lanes {body.lanes}"]
    lines += [f"    {print_statement(s, names)}" for s in body.before]
    lines += [f"    {a.name} = load {print_access(a, names)}" for a in body.loads]
    if body.turning is not None:
        lines[0] += f" in {body.turning.tile}"
        lines += [f"    {a.name} = turn {print_access(a, names)}" for a in body.turning.loads]
    lines += [f"    once {print_statement(s, names)}" for s in body.once]
    lines += [f"    {print_statement(s, names)}" for s in body.statements]
    lines += [f"    store {a.name} -> {print_access(a, names)}" for a in body.stores]
    if body.turning is not None:
        lines += [f"    turn {a.name} -> {print_access(a, names)}" for a in body.turning.stores]
    return lines
