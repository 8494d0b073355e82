"""A stream schedule to a stream kernel: the phases of a row kernel, walked chunk by chunk.

stream of rows, 4 vectors at a time
  T1_part max= T0;  T3_part scaled, then sum= exp(T0 - T1_row), where T1_row is the maximum so far
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.precision import is_guarded
from thunder_fuser.kernel.row_ir import Reduce, RowKernel
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.kernel.signature import Pointer, ScalarParameter
from thunder_fuser.schedule.streams import StreamSchedule


@dataclass(frozen=True)
class StreamKernel:
    """One launch, a row per block. `rows` has a phase with the maximum `top` and one of sums below
    it. Those in `unguarded` are not a number where the maximum is infinite, as inf - inf is."""

    rows: RowKernel
    top: Reduce
    unguarded: frozenset[str]  # names of accumulators
    chunk: int  # vectors that a thread has in flight

    @property
    def pointers(self) -> tuple[Pointer, ...]:
        return self.rows.pointers

    @property
    def scalars(self) -> tuple[ScalarParameter, ...]:
        return self.rows.scalars

    @property
    def threads(self) -> int:
        return self.rows.threads

    @property
    def blocks(self) -> int:
        return self.rows.blocks

    def __str__(self) -> str:
        return (
            f"stream kernel, {self.chunk} vectors at a time, below {self.top.result.name}\n"
            + str(self.rows)
        )


def lower_streams(planned: StreamSchedule, strict: bool = False) -> StreamKernel:
    """The kernel of a stream schedule. Raises ValueError for `strict`: it has other sums than the
    trace, so it cannot keep all of its roundings."""
    if strict:
        raise ValueError("a stream kernel keeps no rounding of the trace")
    kernel = lower_rows(planned.rows, strict=False, in_flight=planned.chunk)
    first, second = kernel.phases
    (top,) = (reduce for reduce in first.reductions if reduce.op.name == "max")
    terms = planned.rows.phases[1].terms
    unguarded = frozenset(
        reduce.accumulator.name
        for reduce, (term, _) in zip(second.reductions, terms, strict=True)
        if not is_guarded(term)
    )
    return StreamKernel(kernel, top, unguarded, planned.chunk)
