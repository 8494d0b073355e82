"""A segment: what one kernel reads and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.scalar import Constant, Scalar
from thunder_fuser.ir.tensor import TensorView


@dataclass(frozen=True)
class Store:
    """`value` is computed and written into the storage of `target`: the value's own fresh buffer, or
    an input that is updated in place."""

    value: TensorView
    target: TensorView

    @property
    def is_in_place(self) -> bool:
        return self.value is not self.target


@dataclass(frozen=True, eq=False)
class Segment:
    """Stores of one kernel, the tensors it reads from memory, and where all of them lie."""

    stores: tuple[Store, ...]
    leaves: frozenset[TensorView]
    layouts: Mapping[TensorView, Layout]

    @property
    def tensors(self) -> tuple[TensorView, ...]:
        """Everything from the leaves to the stored values, producers first."""
        reached = _until(self.stores, self.leaves)
        return tuple(reached)

    @property
    def inputs(self) -> tuple[TensorView, ...]:
        """The leaves that are read, in order of first use."""
        return tuple(tv for tv in self.tensors if tv in self.leaves)

    @property
    def scalars(self) -> tuple[Scalar, ...]:
        """Run-time scalars that the computation uses, in order of first use."""
        found: dict[Scalar, None] = {}
        for tv in self.tensors:
            if tv in self.leaves or tv.definition is None:
                continue
            for value in tv.definition.inputs:
                if not isinstance(value, TensorView | Constant):
                    found[value] = None
        return tuple(found)


def _until(stores: tuple[Store, ...], leaves: frozenset[TensorView]) -> list[TensorView]:
    done: dict[TensorView, None] = {}
    stack = [(s.value, False) for s in reversed(stores)]
    while stack:
        tv, expanded = stack.pop()
        if tv in done:
            continue
        if expanded or tv in leaves or tv.definition is None:
            done[tv] = None
        else:
            stack.append((tv, True))
            stack += [(p, False) for p in reversed(tv.definition.tensors)]
    return list(done)
