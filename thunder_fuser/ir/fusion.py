"""A fusion: inputs, returned tensors, in-place writes; everything else is reached from these."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

from thunder_fuser.ir.tensor import Expr, TensorView, Value


@dataclass(frozen=True)
class Write:
    """`value` is written into the storage of the input `target` once every read of it is done."""

    value: TensorView
    target: TensorView


@dataclass(frozen=True, eq=False)
class Fusion:
    """`outputs` are the returned tensors in order. An output that is also the value of a write is
    returned as the target tensor itself."""

    inputs: tuple[Value, ...]
    outputs: tuple[TensorView, ...]
    writes: tuple[Write, ...] = ()

    @cached_property
    def tensors(self) -> tuple[TensorView, ...]:
        """Every tensor: the inputs in order, then the others, producers before consumers."""
        inputs = [v for v in self.inputs if isinstance(v, TensorView)]
        return tuple(topological((*inputs, *self.roots)))

    @property
    def roots(self) -> tuple[TensorView, ...]:
        """What must be computed: outputs and written values."""
        return tuple(dict.fromkeys((*self.outputs, *(w.value for w in self.writes))))

    @property
    def exprs(self) -> tuple[Expr, ...]:
        """Every expression, producers first."""
        return tuple(
            dict.fromkeys(tv.definition for tv in self.tensors if tv.definition is not None)
        )

    @cached_property
    def uses(self) -> dict[TensorView, tuple[TensorView, ...]]:
        """The direct consumers of each tensor, in topological order."""
        found: dict[TensorView, list[TensorView]] = {tv: [] for tv in self.tensors}
        for consumer in self.tensors:
            for producer in dict.fromkeys(consumer.producers):
                found[producer].append(consumer)
        return {tv: tuple(consumers) for tv, consumers in found.items()}

    def __str__(self) -> str:
        from thunder_fuser.ir.text import print_fusion  # text needs this type; str() is its face

        return print_fusion(self)


def topological(
    roots: Iterable[TensorView], leaves: Container[TensorView] = ()
) -> Iterator[TensorView]:
    """`roots` and all they depend on, producers first, each once; nothing behind `leaves` is
    visited. Iterative, so depth is no limit."""
    done: set[TensorView] = set()
    for root in roots:
        stack = [root]
        while stack:
            tv = stack[-1]
            waiting = [] if tv in leaves else [p for p in tv.producers if p not in done]
            if tv in done:
                stack.pop()
            elif waiting:
                stack.extend(reversed(waiting))
            else:
                done.add(stack.pop())
                yield tv


def following(made: Iterable[TensorView], tensors: Iterable[TensorView]) -> set[TensorView]:
    """What is `made`, and which of `tensors`, producers first, are computed of it."""
    found = set(made)
    for tv in tensors:
        if not found.isdisjoint(tv.producers):
            found.add(tv)
    return found
