"""An order schedule to an order kernel.

order kernel(T0: i64*, T1: i64*, T2: i64*, T3: i64*) 125 blocks of 256 groups, 1024 threads
  16384 places in 32000 groups: group_order T1, group_keys T2, group_ends T3
  index of place
    T0_0: i64 = T0[place]
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thunder_fuser.kernel.integers import Index, index_of
from thunder_fuser.kernel.names import name_values, pointers_of, scalars_of
from thunder_fuser.kernel.signature import Pointer, ScalarParameter, print_parameters
from thunder_fuser.schedule.ordering import OrderSchedule


@dataclass(frozen=True)
class OrderKernel:
    """One launch. `results` has the tensor that each op is written to, of the ops that are asked
    for."""

    pointers: tuple[Pointer, ...]
    scalars: tuple[ScalarParameter, ...]
    index: Index
    terms: int
    count: int
    own: int
    threads: int
    blocks: int
    results: Mapping[str, str]

    @property
    def blocks_at_once(self) -> None:
        """Any number of blocks may fit on a multiprocessor."""

    def __str__(self) -> str:
        made = ", ".join(f"{name} {tensor}" for name, tensor in self.results.items())
        return (
            f"order kernel({print_parameters(self.pointers, self.scalars)}) "
            f"{self.blocks} blocks of {self.own} groups, {self.threads} threads\n"
            f"  {self.terms} places in {self.count} groups: {made}\n"
            f"{self.index}"
        )


def lower_order(planned: OrderSchedule, strict: bool) -> OrderKernel:
    """The kernel of an order schedule. `strict` keeps every rounding of what its index is computed
    of."""
    segment = planned.segment
    names = name_values(segment)
    results = {}
    for store in segment.stores:
        results[store.value.expr.op.name] = names.tensors[store.target]
    return OrderKernel(
        pointers=pointers_of(segment, names),
        scalars=scalars_of(names),
        index=index_of(segment, names, planned.index, strict),
        terms=planned.terms,
        count=planned.count,
        own=planned.own,
        threads=planned.threads,
        blocks=planned.blocks,
        results=results,
    )
