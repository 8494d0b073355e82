"""What a template may vary: how fast a kernel is and in which order it sums, nothing else.

The first of a template's parameters is what the model prefers, the others are what may be faster on
the machine at hand. A None leaves a choice to the model, which looks at the segment. Figures that
were measured stand in the commits that set them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypeAlias

from thunder_fuser.analysis.kept_rows import HELD
from thunder_fuser.target import Target

MAX_LANES = 8  # elements of one vector: 16 bytes of the 2-byte types
MAX_OWNED = 8  # values of one axis that a thread may own beyond its vector
MAX_LOADED = 192  # bytes that one thread loads: 48 registers
BUSY_THREADS = 512  # per multiprocessor: below it latency, not bandwidth, decides
NEAR = 2048  # bytes; stores of one thread that lie farther apart scatter the writes of a block
KEPT = 32 << 10  # bytes of a tensor that the L1 cache of a multiprocessor keeps beside what streams
HALF = 50  # percent of what a class moves
FIFTH = 20
NEVER = 1 << 62  # bytes that no tensor has


@dataclass(frozen=True)
class MapParameters:
    """The knobs of T1.

    Where more than half of `cache` bytes are moved between two loads of an element, it comes from
    memory each time, not from the L2 cache, of which each half serves half of the multiprocessors:
    then it is enough if a fifth of the bytes moved is loaded once in place of again."""

    threads: int = 128  # of one block
    lanes: int = MAX_LANES  # elements of one vector, at most
    owned: int = MAX_OWNED  # values of an axis that one thread may own beyond its vector
    busy: int = 1  # elements that run in parallel, below which threads own nothing extra
    near: int = NEAR  # bytes between stores of one thread, at most
    reused: int = 1  # values of an axis for which one thread loads once what they share, at most,
    # however far apart they are stored
    again: int = HALF  # percent of the bytes moved: what is shared must be as many
    cache: int = NEVER  # bytes, as above
    kept: int = KEPT  # bytes between two loads of one element, above which caches are not trusted
    wide: bool = False  # vectors are as wide in threads that own such values, else half as wide
    streamed: int = NEVER  # bytes of a store from which on it bypasses the cache
    rests: bool = False  # what vectors leave over is never nothing, and never one element

    @property
    def lanes_of_owners(self) -> int:
        """Elements of a vector, at most, of threads that own several values of an axis."""
        return self.lanes if self.wide else self.lanes // 2

    @property
    def of_classes(self) -> MapParameters:
        """Those that nests are classified by, beside which the others say nothing."""
        return MapParameters(owned=self.owned, busy=self.busy, near=self.near)

    @property
    def of_owners(self) -> MapParameters:
        """Those by which a thread owns several values, or is one of fewer."""
        return replace(self, threads=MapParameters.threads, streamed=NEVER, rests=False)


@dataclass(frozen=True)
class RowParameters:
    """The knobs of T2, and of T4, where blocks walk rows with sums down the columns."""

    held: int | None = None  # elements of a row that one thread holds
    keeps: bool = True  # long rows where they fit, else each phase reads them again; so with slots
    cluster: int | None = None  # blocks that share a row: one too long for several, or walked
    block: int = 128  # threads of a block, at least: short rows share one
    walks: int = 2  # blocks that walk rows on one multiprocessor, at most
    slots: int = 2  # rows in the shared memory of a block that walks, at most, on a full machine
    spare: bool = False  # a block that walks has a warp more than a row has work for
    batch: int | None = None  # turns of rows side by side that are loaded together, at most
    ends: bool = False  # odd rows are loaded as if their plane always ended inside a vector
    stretches: bool = True  # short rows are walked through shared memory
    brings: bool = True  # a row that is walked brings what it has one of, else its turn loads it


@dataclass(frozen=True)
class StreamParameters:
    """The knobs of T3."""

    threads: int | None = None  # of one row
    chunk: int | None = None  # vectors that a thread has in flight
    ends: bool = False  # as of T2


@dataclass(frozen=True)
class ColumnParameters:
    """The knobs of T5."""

    across: int = 32  # threads side by side along a row, at most
    threads: int | None = None  # of one block
    blocks: int | None = None  # of a multiprocessor that share rows, at most
    fills: bool = False  # a thread loads as many rows at a time as if it had no end of them


@dataclass(frozen=True)
class KeptParameters:
    """The knobs of T9."""

    line: int = 128  # bytes of a row that a block takes, at most
    held: int = HELD  # registers of a thread for what it keeps; twice as many where they must be
    blocks: int = 2  # on a multiprocessor, for which a block may take fewer columns
    images: bool = True  # of short rows that are no whole lines are kept as a whole,
    slots: bool = True  # in shared memory where they fit
    shares: bool = True  # of long columns each block of a cluster has a part
    odd: bool = True  # rows that no vector divides come in vectors that lag behind their columns
    tall: bool = True  # threads have many rows of few columns that are only summed


@dataclass(frozen=True)
class GroupParameters:
    """The knobs of T7."""

    across: int = 32  # threads side by side along a row, at most
    turns: int | None = None  # rows of each part of a block's threads


@dataclass(frozen=True)
class PickParameters:
    """The knobs of T11."""

    threads: int | None = None  # of one block
    slots: bool = True  # elements are put in slots of their column where these fit


@dataclass(frozen=True)
class OrderParameters:
    """The knob of T8."""

    own: int | None = None  # groups of one block


@dataclass(frozen=True)
class DigitParameters:
    """The knob of T10."""

    threads: int = 256  # of one block that finds where groups end


Parameters: TypeAlias = (
    MapParameters
    | RowParameters
    | StreamParameters
    | ColumnParameters
    | KeptParameters
    | GroupParameters
    | PickParameters
    | OrderParameters
    | DigitParameters
)


def map_parameters(target: Target) -> tuple[MapParameters, ...]:
    """Sharing loads inside a thread pays while there are threads enough to fill the machine; a
    smaller problem is bound by latency and gets as many threads as it can."""
    busy = target.multiprocessors * BUSY_THREADS * MAX_LANES
    cache = max(target.l2_bytes, 1)
    first = MapParameters(busy=busy, reused=MAX_OWNED, cache=cache, streamed=cache)
    return (
        first,
        replace(first, threads=256),
        replace(first, streamed=NEVER),
        replace(first, streamed=1),
        replace(first, threads=512),
        replace(first, reused=1),
        replace(first, reused=4),
        replace(first, reused=4, again=20, kept=0),
        replace(first, wide=True),
        replace(first, lanes=4),
        replace(first, owned=1, reused=1),
    )


def row_parameters(target: Target) -> tuple[RowParameters, ...]:
    """Many vectors per thread and small blocks, so that the loads of one row go beside the
    arithmetic of another."""
    return (
        RowParameters(),
        RowParameters(brings=False),
        RowParameters(slots=3, brings=False),
        RowParameters(held=16),
        RowParameters(held=32),
        RowParameters(held=64),
        RowParameters(block=256),
        RowParameters(walks=1),
        RowParameters(slots=3),
        RowParameters(slots=6),
        RowParameters(spare=True),
        RowParameters(batch=1),
        RowParameters(batch=2),
        RowParameters(batch=4),
        RowParameters(stretches=False),
        RowParameters(held=8),
        RowParameters(keeps=False),
        RowParameters(cluster=1),
        RowParameters(cluster=2),
        RowParameters(cluster=4),
        RowParameters(cluster=8),
    )


def stream_parameters(target: Target) -> tuple[StreamParameters, ...]:
    """Small blocks keep several rows on a multiprocessor."""
    return (
        StreamParameters(),
        StreamParameters(threads=256, chunk=4),
        StreamParameters(threads=512, chunk=4),
        StreamParameters(chunk=8),
        StreamParameters(threads=128, chunk=8),
        StreamParameters(threads=512, chunk=2),
        StreamParameters(threads=1024, chunk=4),
    )


def column_parameters(target: Target) -> tuple[ColumnParameters, ...]:
    """A warp reads a run of 512 bytes of a row."""
    return (
        ColumnParameters(),
        ColumnParameters(blocks=16),
        ColumnParameters(blocks=4),
        ColumnParameters(threads=512),
        ColumnParameters(across=16),
        ColumnParameters(across=8),
        ColumnParameters(threads=128),
        ColumnParameters(threads=1024),
    )


def kept_parameters(target: Target) -> tuple[KeptParameters, ...]:
    """A line of each row, and enough of them on their way at once."""
    return (
        KeptParameters(),
        KeptParameters(held=16),
        KeptParameters(held=64),
        KeptParameters(line=64),
        KeptParameters(line=256),
        KeptParameters(blocks=1),
        KeptParameters(blocks=3),
        KeptParameters(images=False),
        KeptParameters(slots=False),
        KeptParameters(shares=False),
        KeptParameters(odd=False),
        KeptParameters(tall=False),
    )


def group_parameters(target: Target) -> tuple[GroupParameters, ...]:
    """A warp writes a row of many elements."""
    return (
        GroupParameters(),
        GroupParameters(turns=1),
        GroupParameters(turns=8),
        GroupParameters(across=16),
    )


def pick_parameters(target: Target) -> tuple[PickParameters, ...]:
    """Of fewer threads each has more elements on their way, and fewer wait for each other."""
    first = PickParameters()
    others = (replace(first, threads=threads) for threads in (256, 512, 1024, 128))
    return (first, replace(first, slots=False), *others)


def order_parameters(target: Target) -> tuple[OrderParameters, ...]:
    """Blocks of fewer groups are more, and each of them reads the whole index."""
    return (OrderParameters(), *(OrderParameters(own) for own in (256, 512, 128)))


def digit_parameters(target: Target) -> tuple[DigitParameters, ...]:
    """Of more groups a block looks between ends that are farther apart."""
    return (DigitParameters(), DigitParameters(128), DigitParameters(512))
