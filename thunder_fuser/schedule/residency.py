"""Where a row is while the phases of the row template walk it: registers, shared memory, neither.

    softmax, 4096 columns         in 16 registers of 128 threads
    its gradient, 65536           one operand in registers of 1024 threads, one in shared memory
    gradient of a norm, 4096      slots for several rows in shared memory, which a block walks: the
                                  registers are full of sums down the columns

What is in neither is read again by every phase.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.target import Target

WARP = 32
MAX_THREADS = 1024  # of one block
MIN_BLOCK = 128  # threads of a block, at least
THREADS_AGAIN = 512  # of a row that every phase reads again: several are on a multiprocessor
HELD = 32  # elements of a row that one thread holds; twice as many in long rows
FEW = 8192  # elements up to which a row is not long
REGISTERS = 65536  # of a multiprocessor, 32 bits each
SCRATCH = 32  # registers that a thread needs beside its row
MAX_THREADS_WITH_SUMS = 512
SCRATCH_WITH_SUMS = 40
SPILL_FREE = 128  # estimated registers beyond which such a kernel has been seen to spill
RESERVED_BYTES = 8 * 1024  # of shared memory, for partial sums and what the driver takes
IN_FLIGHT = 96 * 1024  # bytes of rows on their way that keep a multiprocessor's memory busy
MIN_SLOTS = 2  # rows in a block's shared memory: one is worked on, others come
PREFERRED = RowParameters()


@dataclass(frozen=True)
class Residency:
    """`threads` share a row. Of what they read of it, `registers` and `shared` name the tensors
    that stay on the multiprocessor, the latter in one of `slots` in shared memory. `blocks` are to
    fit on a multiprocessor, None for as many as do."""

    threads: int
    registers: frozenset[TensorView] = frozenset()
    shared: frozenset[TensorView] = frozenset()
    slots: int = 0
    blocks: int | None = None


@dataclass(frozen=True)
class Row:
    """A row of `vectors`, and the registers that one vector fills: of each tensor read, and of what
    scans leave."""

    vectors: int
    lanes: int
    loads: Mapping[TensorView, int]
    scanned: int = 0

    @property
    def loaded(self) -> int:
        return sum(self.loads.values())


def of_rows(row: Row, target: Target, parameters: RowParameters = PREFERRED) -> Residency | None:
    """In registers where they hold it; else, if shared memory holds the rest, in both. None for a
    row whose scans no registers hold."""
    preferred = HELD if row.vectors * row.lanes <= FEW else 2 * HELD
    held = max((parameters.held or preferred) // row.lanes, 1)
    if not (parameters.keeps or row.scanned or row.vectors * row.lanes <= FEW):
        return Residency(min(_rounded(-(-row.vectors // held)), THREADS_AGAIN))
    while True:
        threads = _rounded(-(-row.vectors // held))
        registers = -(-row.vectors // threads) * (row.loaded + row.scanned) + SCRATCH
        if registers * max(threads, MIN_BLOCK) <= REGISTERS and registers <= 255 - SCRATCH:
            return Residency(threads, registers=frozenset(row.loads))
        if not row.scanned:
            return _in_both(row, target) or Residency(threads)
        if held == 1:
            return None
        held //= 2  # it cannot be read again, but by more threads


def _in_both(row: Row, target: Target) -> Residency | None:
    """One block on a multiprocessor: what its registers do not hold is in shared memory."""
    places = -(-row.vectors // MAX_THREADS)
    free = REGISTERS // MAX_THREADS - SCRATCH
    registers: set[TensorView] = set()
    for tv, width in sorted(row.loads.items(), key=lambda load: -load[1]):
        if places * width <= free:
            free -= places * width
            registers.add(tv)
    shared = row.loads.keys() - registers
    moved = 4 * MAX_THREADS * places * sum(row.loads[tv] for tv in shared)
    if moved > target.shared_bytes - RESERVED_BYTES:
        return None
    return Residency(MAX_THREADS, frozenset(registers), frozenset(shared), slots=1, blocks=1)


def beside_sums(
    row: Row, sums: int, turns: int, target: Target, parameters: RowParameters = PREFERRED
) -> Residency | None:
    """As many threads as leave room for two blocks, else for one, on a multiprocessor: a thread
    holds the accumulators of `sums` sums in registers, and its part of this row and the next ones
    of `turns` in shared memory. None for rows that are too long."""
    limit = target.shared_bytes - RESERVED_BYTES
    for blocks in range(parameters.walks, 0, -1):
        for threads in range(MAX_THREADS_WITH_SUMS, MIN_BLOCK - 1, -WARP):
            held = -(-row.vectors // threads)
            registers = held * sums * row.lanes + 2 * row.loaded + SCRATCH_WITH_SUMS
            is_tight = held * threads - row.vectors <= threads // 8 or threads == MIN_BLOCK
            fits = registers * threads * blocks <= REGISTERS and registers <= SPILL_FREE
            moved = max(4 * row.loaded * held * threads * blocks, 1)
            if is_tight and fits and MIN_SLOTS * moved <= limit:
                flying = 1 - (-IN_FLIGHT // moved)
                wanted = min(flying, parameters.slots, turns, limit // moved)
                return Residency(threads, frozenset(), frozenset(row.loads), wanted, blocks)
    return None


def _rounded(threads: int) -> int:
    """Whole warps, or a power of two that divides one."""
    if threads > WARP:
        return min(-(-threads // WARP) * WARP, MAX_THREADS)
    return int(1 << (threads - 1).bit_length())
