"""What a kernel is generated for: an architecture, and the machine limits that schedules look at.

`cuda:sm_90a` is a GPU. `host` is the CPU of this machine: it runs the very same kernel text, block
after block, so that everything but the clock can be tested where there is no GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

HOPPER_SHARED_BYTES = 227 * 1024
CLUSTERS = (2, 4, 8)  # blocks that every GPU with clusters can run at the same time
PORTABLE_CLUSTER = max(CLUSTERS)
LARGE_CLUSTER = 16  # blocks, for which a GPU must have neighbours enough and be asked
DISTRICTS, PAIRED = 8, 2  # of a GPU at most, each of pairs of multiprocessors: GPCs and TPCs
NEIGHBOURS = 16  # multiprocessors that clusters share; they leave one of so many idle
WITH_CLUSTERS = (
    9,
    10,
)  # Hopper and the Blackwell of data centres; the desktop's has none of several
WARP = 32  # threads that run in lockstep and can shuffle; the host target imitates it
MAX_THREADS = 1024  # of one block
REGISTERS = 65536  # of a multiprocessor
REGISTER_BYTES = 4
PARTITIONS = 4  # of a multiprocessor, with a quarter of the registers each
REGISTERS_AT_ONCE = 8  # of a thread
MAX_REGISTERS = 255  # of a thread
SHARED_UNASKED = 48 * 1024  # bytes of shared memory that a block has without asking for more
MAX_BLOCKS = 32  # that a multiprocessor has at once, however small they are
SECTOR, LINE = 32, 128  # bytes: what memory moves at least, and what a cache keeps together
SHARED_OF_SYSTEM = 1024  # bytes of shared memory that each block has beside what it asks for
BANKS, BANK = 32, 4  # of shared memory, and bytes that one serves at a time

_ARCHITECTURE = re.compile(r"sm_(\d+)(\d)([af]?)")


@dataclass(frozen=True)
class Target:
    """A kind of machine. Two GPUs of one model are one target: no ordinal, no name, no clock.

    `arch` is exact: `sm_90a` code does not run as `sm_90`. `multiprocessors` sizes grids, the
    byte limits size tiles. `shared_bytes` is what one block may use when it asks for it. Up to
    `max_cluster` blocks can run at the same time and write to each other's shared memory.
    """

    kind: Literal["cuda", "host"]
    arch: str
    multiprocessors: int
    threads_per_multiprocessor: int = 2048
    shared_bytes: int = HOPPER_SHARED_BYTES
    l2_bytes: int = 0
    max_cluster: int = 1

    @property
    def is_cuda(self) -> bool:
        return self.kind == "cuda"

    @property
    def copies_stretches(self) -> bool:
        """Whether an engine copies stretches of memory to shared memory and back: GPUs with
        clusters have it."""
        return self.max_cluster > 1

    def __str__(self) -> str:
        return f"cuda:{self.arch}" if self.is_cuda else "host"


# One "multiprocessor" keeps host grids small; the figures are those of any GPU otherwise, so that a
# kernel scheduled for the host has the shape it would have on one.
HOST = Target("host", "host", multiprocessors=1, max_cluster=LARGE_CLUSTER)


def cuda(
    arch: str,
    multiprocessors: int,
    *,
    threads_per_multiprocessor: int = 2048,
    shared_bytes: int = HOPPER_SHARED_BYTES,
    l2_bytes: int = 0,
) -> Target:
    """The target of a GPU. Raises ValueError unless `arch` reads like `sm_90a`."""
    found = _ARCHITECTURE.fullmatch(arch)
    if found is None:
        raise ValueError(f"arch={arch!r} is no CUDA architecture; write it as 'sm_80' or 'sm_90a'")
    if multiprocessors < 1:
        raise ValueError(f"multiprocessors={multiprocessors}: a GPU has at least one")
    return Target(
        "cuda",
        arch,
        multiprocessors,
        threads_per_multiprocessor,
        shared_bytes,
        l2_bytes,
        _max_cluster(int(found[1]), multiprocessors),
    )


def _max_cluster(major: int, multiprocessors: int) -> int:
    """Blocks of a cluster, each alone on its multiprocessor, all in one district. A GPU that has
    more multiprocessors than districts of fewer than LARGE_CLUSTER hold has a larger one."""
    if major not in WITH_CLUSTERS:
        return 1
    is_large = multiprocessors > DISTRICTS * (LARGE_CLUSTER - PAIRED)
    return LARGE_CLUSTER if is_large else PORTABLE_CLUSTER


def clusters_at_once(cluster: int, multiprocessors: int) -> int:
    """How many clusters of so many blocks run at a time, a block a multiprocessor. Those of one are
    neighbours, of which some are left over: a H200 has 15 of eight, 31 of four."""
    near = multiprocessors - (multiprocessors // NEIGHBOURS if cluster > 1 else 0)
    return max(near // cluster, 1)


def registers_among(threads: int) -> int:
    """Of each of so many threads of a multiprocessor, whose warps are dealt to its partitions."""
    warps = -(-threads // (WARP * PARTITIONS))
    return REGISTERS // (PARTITIONS * WARP * warps) // REGISTERS_AT_ONCE * REGISTERS_AT_ONCE


def blocks_among(registers: float, threads: int) -> int:
    """Blocks of so many threads that a multiprocessor has, which need so many registers each."""
    warps = int(REGISTERS // (PARTITIONS * WARP * registers)) * PARTITIONS
    return min(warps // -(-threads // WARP), MAX_BLOCKS)


def architecture(major: int, minor: int) -> str:
    """The name of a compute capability, with the instructions of just that chip where it has them.

    (8, 0) => sm_80      (9, 0) => sm_90a
    """
    return f"sm_{major}{minor}" + ("a" if major >= 9 else "")


def clusters_up_to(most: int) -> list[int]:
    """Blocks of the clusters that every GPU with clusters runs, up to `most`."""
    return [cluster for cluster in CLUSTERS if cluster <= most]
