"""A segment: what one kernel reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from math import prod

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.reductions import is_long, met_rows
from thunder_fuser.ir.fusion import topological
from thunder_fuser.ir.scalar import Constant, Scalar
from thunder_fuser.ir.tensor import TensorView


@dataclass(frozen=True)
class Store:
    """`value` is computed and written into the storage of `target`: a fresh buffer, which is the
    value itself, or an input that is updated in place."""

    value: TensorView
    target: TensorView

    @property
    def is_in_place(self) -> bool:
        return self.value is not self.target


@dataclass(frozen=True, eq=False)
class Segment:
    """Stores of one kernel, the tensors it reads from memory, and where all of them lie. For what
    is in `fast` the fast form of an op is good enough; what is `exact` is computed as the trace
    says, and what is `rounded` has its precision (`analysis/precision.py`). The blocks of one that
    `is_reversed` walk memory from its end; what it stores and is `handed_on` is read by the next
    kernel."""

    stores: tuple[Store, ...]
    leaves: frozenset[TensorView]
    layouts: Mapping[TensorView, Layout]
    is_opaque: bool = False  # run by torch: no template holds it
    fast: frozenset[TensorView] = frozenset()
    exact: frozenset[TensorView] = frozenset()
    rounded: frozenset[TensorView] = frozenset()
    is_reversed: bool = False
    handed_on: frozenset[TensorView] = frozenset()

    @property
    def direction(self) -> str:
        """What is added to a printed line where blocks walk from there."""
        return ", from the end of memory" if self.is_reversed else ""

    @property
    def written(self) -> tuple[Store, ...]:
        """The stores of at least one element."""
        return tuple(s for s in self.stores if prod(s.value.shape) > 0)

    @cached_property
    def tensors(self) -> tuple[TensorView, ...]:
        """Everything from the leaves to the stored values, producers first."""
        return tuple(topological([s.value for s in self.stores], self.leaves))

    @cached_property
    def inputs(self) -> tuple[TensorView, ...]:
        """The leaves that are read, in order of first use."""
        return tuple(tv for tv in self.tensors if tv in self.leaves)

    @cached_property
    def made(self) -> tuple[TensorView, ...]:
        """What is computed, producers first."""
        return tuple(tv for tv in self.tensors if tv not in self.leaves)

    @cached_property
    def long(self) -> tuple[TensorView, ...]:
        """What of it more than a thread computes: reductions of many terms, scans, sums of
        groups."""
        return tuple(filter(is_long, self.made))

    @cached_property
    def met(self) -> tuple[TensorView, ...]:
        """What of it rows of a block come to together."""
        return tuple(tv for tv in self.made if met_rows(tv) is not None)

    @property
    def names(self) -> dict[TensorView, str]:
        """T0, T1, ... in topological order, then the targets: names that equal segments share."""
        found = {tv: f"T{k}" for k, tv in enumerate(self.tensors)}
        for store in self.stores:
            found.setdefault(store.target, f"T{len(found)}")
        return found

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """Run-time scalars that the computation uses, in order of first use."""
        found: dict[Scalar, None] = {}
        for tv in self.made:
            for value in tv.expr.inputs:
                if not isinstance(value, TensorView | Constant):
                    found[value] = None
        return tuple(found)
