"""A schedule of a stage of an order to its kernel.

digit kernel(T0: i64*, T1: i16*, T2: i32*, T3: i32*) 128 blocks of 1024 threads
  index of place
    T0_0: i64 = T0[place]
  put_digits<0, 9, 8192, 8192, 1024, 128>(index, nullptr, 1048576, T1, 128, T2, T3)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from typing_extensions import assert_never

from thunder_fuser.analysis.digit_stages import round_of
from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.kernel.integers import INDEX, Index, index_of
from thunder_fuser.kernel.names import name_values, pointers_of, scalars_of
from thunder_fuser.kernel.signature import Pointer, ScalarParameter, print_parameters
from thunder_fuser.ops.groups import CHUNKS
from thunder_fuser.schedule.digit_stages import (
    KEYS,
    ORDERS,
    OWN,
    CountSchedule,
    Digit,
    DigitSchedule,
    EndsSchedule,
    PutSchedule,
)

NULL = "nullptr"


@dataclass(frozen=True)
class DigitKernel:
    """One launch, of the device function `name<constants>(arguments)`, for the first of which the
    `index` is a function of the place. Numbers among the arguments are sizes."""

    pointers: tuple[Pointer, ...]
    scalars: tuple[ScalarParameter, ...]
    index: Index | None
    name: str
    constants: tuple[int, ...]
    arguments: tuple[str | int, ...]
    threads: int
    blocks: int

    @property
    def blocks_at_once(self) -> int:
        """Blocks that are to fit on a multiprocessor: told nothing, the compiler would leave room
        for two of 1,024 threads, and spill."""
        return 1

    def __str__(self) -> str:
        lines = [
            f"digit kernel({print_parameters(self.pointers, self.scalars)}) "
            f"{self.blocks} blocks of {self.threads} threads",
            *([] if self.index is None else [str(self.index)]),
            f"  {self.call}",
        ]
        return "\n".join(lines)

    @property
    def call(self) -> str:
        constants, arguments = (", ".join(map(str, a)) for a in (self.constants, self.arguments))
        return f"{self.name}<{constants}>({arguments})"


def lower_digits(planned: DigitSchedule, strict: bool) -> DigitKernel:
    """The kernel of a stage. `strict` keeps every rounding of what its index is computed of."""
    segment, threads = planned.segment, planned.threads
    names = name_values(segment)
    results = {s.value.expr.op.name: names.tensors[s.target] for s in segment.stores}
    constants: tuple[int, ...]
    arguments: tuple[str | int, ...]
    index = None
    match planned:
        case CountSchedule(_, digit, count):
            name, blocks, constants = "count_digits", digit.counted, _constants(digit, threads)
            index = index_of(segment, names, digit.keys, strict)
            arguments = (INDEX, digit.keys.shape[0], count, results["digit_counts"])
        case PutSchedule(_, digit, counts, places):
            name, blocks = "put_digits", digit.blocks
            constants = *_constants(digit, threads), CHUNKS
            index = index_of(segment, names, digit.keys, strict)
            made = _made(results, *ORDERS), _made(results, KEYS)
            arguments = (
                INDEX,
                names.tensors[places] if places is not None else NULL,
                digit.keys.shape[0],
                names.tensors[counts],
                digit.counted,
                *made,
            )
        case EndsSchedule(_, keys, count):
            name, blocks = "find_ends", ceil_div(count, planned.groups)
            constants = threads, OWN
            arguments = (names.tensors[keys], keys.shape[0], count, results["group_ends"])
        case _:
            assert_never(planned)
    pointers, scalars = pointers_of(segment, names), scalars_of(names)
    return DigitKernel(pointers, scalars, index, name, constants, arguments, threads, blocks)


def _made(results: Mapping[str, str], *ops: str) -> str:
    return next((results[name] for name in ops if name in results), NULL)


def _constants(digit: Digit, threads: int) -> tuple[int, ...]:
    return digit.low, digit.bits, digit.chunk, round_of(digit.chunk), threads
