"""What a block has of images that pass through shared memory, an image of each plane in a slot.

512 channels of 7 x 7, 16 bits      50 KB: four blocks on a multiprocessor
with sums beside, of two planes     two slots of 100 KB: the next images come to one meanwhile

Of a plane that is turned the rows of a place follow each other. Threads at places load a vector of
rows of it, threads at rows the next row each: places lie an odd number of accesses apart, so that
both meet all banks of shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.target import (
    BANK,
    BANKS,
    LINE,
    MAX_THREADS,
    SHARED_OF_SYSTEM,
    SHARED_UNASKED,
    WARP,
    Target,
)

KNOWN = 32  # bytes of a place that threads at rows know, for who does not know how many
BESIDE = 384  # bytes for mailboxes, and between arrays
LEAST_BYTES = 16 * 1024  # of an image, of all planes
SMALL_BYTES = 48 * 1024  # of an image, of which more than two blocks keep memory busy
NARROW = 8  # bytes of a vector
LEAST = 2  # of those that do not walk: one loads while another one stores
ALONE = 512  # threads of a block for each plane of its image
WALKING = 640  # threads of a block that walks, at most, unless rows are more
SHARERS = 3  # of a row, at most: with four of 128 rows or five of 192 it took a sixth longer
FEWEST = 192  # threads of a block that walks
TURNED_DOWN = 4  # of a place, where rows of turned planes come in vectors
CONFLICT = 4  # threads at rows that meet a bank of shared memory, at most


@dataclass(frozen=True)
class ImageSlots:
    """So many `slots` of a block with so many `threads`, of which so many `blocks` are on a
    multiprocessor."""

    slots: int
    threads: int
    blocks: int


@dataclass(frozen=True)
class ImagePlanes:
    """Images of so many `rows` of so many `vectors`, in planes that are read in elements of these
    `itemsizes`, and of those in planes that are `turned`. For a place of a vector a thread has sums
    along the rows of so many bytes, `along`, and for a row over all places of so many bytes,
    `beside`. Threads are at rows for those, or if it `turns_out` what it stores: they know so many
    bytes `of_place`, each. All find so many `of_row`."""

    rows: int
    vectors: int
    lanes: int
    itemsizes: tuple[int, ...]
    along: int
    beside: int
    of_row: int = 0
    of_place: int = KNOWN
    turned: tuple[int, ...] = ()
    turns_out: bool = False

    @property
    def elements(self) -> int:
        """Of an image."""
        return self.rows * self.vectors * self.lanes

    @property
    def image_bytes(self) -> int:
        """In a slot of each plane, which begin at whole lines."""
        straight = [self.elements * size for size in self.itemsizes]
        places = self.vectors * self.lanes
        turned = [places * pitch(self.rows, size) * size for size in self.turned]
        return sum(ceil_div(held, LINE) * LINE for held in (*straight, *turned))

    def slots(self, target: Target) -> ImageSlots | None:
        """None where images are no whole accesses, or too large for the shared memory of a
        block: for two of a multiprocessor, or one that has sums beside. None too where registers
        are as good: for wide vectors, and for small images."""
        if any(self.elements * size % MAX_ALIGNMENT for size in self.itemsizes):
            return None
        if (self.turned or self.turns_out) and not self._turns_well():
            return None
        if self.beside:
            is_narrow = self.lanes * min((*self.itemsizes, *self.turned)) <= NARROW
            return self._walking(target) if is_narrow else None
        is_large = self.elements * sum((*self.itemsizes, *self.turned)) >= LEAST_BYTES
        return self._alone(target) if self.lanes == 1 and is_large else None

    def _turns_well(self) -> bool:
        """True where rows are whole accesses, and elements of a place that lie a row apart are in
        several banks."""
        if self.lanes > 1 or any(self.rows * size % MAX_ALIGNMENT for size in self.turned):
            return False
        steps = [self.vectors * size for size in self.itemsizes]
        return all(step % BANK or gcd(step // BANK, BANKS) <= CONFLICT for step in steps)

    def _alone(self, target: Target) -> ImageSlots | None:
        """Of blocks that have an image each, and threads for each of its planes if it is large, or
        for its rows."""
        planes = 1 if self.image_bytes < SMALL_BYTES else len((*self.itemsizes, *self.turned))
        threads = min(ALONE * planes, MAX_THREADS)
        if self.turns_out:
            threads = self._threads_at_rows()
        down = self.down(threads)
        blocks = self._fitting(1, threads, target)
        if down < 2 or blocks < LEAST:
            return None
        return ImageSlots(1, threads if self.turns_out else down * self.vectors, blocks)

    def _walking(self, target: Target) -> ImageSlots | None:
        """Of blocks that have one image after another, whose rows some threads share."""
        threads = self._threads_at_rows()
        for slots in (2, 1):
            fit = self._fitting(slots, threads, target)
            if fit and self.down(threads) > 1:
                return ImageSlots(slots, threads, fit)
        return None

    def _threads_at_rows(self) -> int:
        most = max(SHARERS, ceil_div(FEWEST, self.rows))
        threads = self.rows * max(1, min(WALKING // self.rows, most))
        if self.turned:
            threads = max(threads, self.vectors * TURNED_DOWN)
        return min(ceil_div(threads, WARP) * WARP, MAX_THREADS)

    def down(self, threads: int) -> int:
        """Threads of a place; no more than have two rows each, or a vector of them."""
        held = max((MAX_ALIGNMENT // size for size in self.turned), default=2)
        return min(threads // self.vectors, self.rows // held)

    def _fitting(self, slots: int, threads: int, target: Target) -> int:
        """Blocks that there is room for on a multiprocessor."""
        places = self.vectors * self.lanes
        padding = self.vectors if self.lanes > 1 and self.vectors < WARP else 0
        parts = self.along * self.down(threads) * (places + padding)
        met = self.beside * max(threads, self.rows)
        known = self.of_place * places
        static = parts + met + known + self.of_row * self.rows + BESIDE
        if static > SHARED_UNASKED:
            return 0
        asked = slots * self.image_bytes + static + SHARED_OF_SYSTEM
        fit = (target.shared_bytes + SHARED_OF_SYSTEM) // asked
        return min(fit, target.threads_per_multiprocessor // threads)


def pitch(rows: int, itemsize: int) -> int:
    """Elements from a place of a turned plane in a slot to the next one: an odd number of
    accesses."""
    return (rows * itemsize // MAX_ALIGNMENT | 1) * MAX_ALIGNMENT // itemsize
