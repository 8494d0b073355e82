"""What may be tuned in the map template without changing any result."""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.target import Target

MAX_LANES = 8  # elements of one vector: 16 bytes of the 2-byte types
MAX_OWNED = 8  # values of one axis that a thread may own beyond its vector
BUSY_THREADS = 512  # per multiprocessor: below it latency, not bandwidth, decides


@dataclass(frozen=True)
class MapParameters:
    """The knobs of T1; figures that were measured stand in the commits that set them."""

    threads: int = 128  # of one block
    lanes: int = MAX_LANES  # elements of one vector, at most
    owned: int = MAX_OWNED  # values of an axis that one thread may own beyond its vector
    busy: int = 1  # elements that run in parallel, below which threads own nothing extra
    streamed: int = 1 << 62  # bytes of a store from which on it bypasses the cache


def parameters_for(target: Target) -> MapParameters:
    """The configuration that the model ranks first.

    Sharing loads inside a thread pays while there are threads enough to fill the machine; a smaller
    problem is bound by latency and gets as many threads as it can.
    """
    busy = target.multiprocessors * BUSY_THREADS * MAX_LANES
    return MapParameters(busy=busy, streamed=max(target.l2_bytes, 1))
