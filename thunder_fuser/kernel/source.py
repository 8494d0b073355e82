"""Kernel text with its integer literals set apart.

    fragments ("i = b * ", " + t;")  literals (256,)      =>      i = b * 256 + t;

Two kernels of one family differ in literals only, so a family that keeps changing can be compiled
once with those literals as parameters (`lift`), and every member of it is then a launch with other
numbers. Whether a kernel belongs to a family is decided by comparing its fragments: lifting never
changes what a kernel means.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from itertools import zip_longest

from thunder_fuser.dtypes import DataType

_INT_LIMIT = 2**31


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter: a pointer to elements of `dtype`, or a scalar of that type."""

    name: str
    dtype: DataType
    is_pointer: bool


@dataclass(frozen=True)
class Source:
    """One kernel: text, parameters in launch order, and the launch shape it was written for.

    `fragments` has one more entry than `literals`, of which `hints` are positions of those that
    tell nothing of sizes, `counts` of those that count blocks and threads. The entry point is
    `name`. Each `cluster` blocks run at the same time, as the text says too. `general` makes a
    kernel for the same work, slower perhaps, whose text is the same for more sizes; without it that
    is this one.
    """

    name: str
    fragments: tuple[str, ...]
    literals: tuple[int, ...]
    parameters: tuple[Parameter, ...]
    blocks: int
    threads: int
    shared_bytes: int = 0
    cluster: int = 1
    hints: frozenset[int] = frozenset()
    counts: frozenset[int] = frozenset()
    general: Callable[[], Source] | None = field(default=None, compare=False, repr=False)
    workspace_bytes: int = 0  # with `tickets`, 32-bit zeros: parameters behind the scalars
    tickets: int = 0

    @property
    def text(self) -> str:
        """The CUDA C++ translation unit."""
        pieces = zip_longest(self.fragments, map(str, self.literals), fillvalue="")
        return "".join(piece for pair in pieces for piece in pair)


def lift(source: Source, positions: Collection[int]) -> Source:
    """`source` with the literals at `positions` replaced by parameters `n0`, `n1`, ...

    A parameter has the type its literal has in C++, so arithmetic keeps its width.
    """
    fragments, literals = [source.fragments[0]], []
    lifted: list[Parameter] = []
    for position, (literal, tail) in enumerate(
        zip(source.literals, source.fragments[1:], strict=True)
    ):
        if position in positions:
            name = f"n{len(lifted)}"
            dtype = DataType.Int32 if -_INT_LIMIT <= literal < _INT_LIMIT else DataType.Int
            lifted.append(Parameter(name, dtype, is_pointer=False))
            fragments[-1] += name + tail
        else:
            literals.append(literal)
            fragments.append(tail)
    return replace(
        source,
        fragments=_declare(source.name, fragments, lifted),
        literals=tuple(literals),
        parameters=(*source.parameters, *lifted),
        hints=frozenset(),
        counts=frozenset(),
        general=None,
    )


def _declare(name: str, fragments: list[str], lifted: list[Parameter]) -> tuple[str, ...]:
    """The fragments with `lifted` added to the parameter list of the entry point `name`."""
    types = {DataType.Int32: "int", DataType.Int: "long long"}
    declared = "".join(f", {types[parameter.dtype]} {parameter.name}" for parameter in lifted)
    opening = re.compile(rf"\b{re.escape(name)}\s*\(([^()]*)")
    position = next(i for i, fragment in enumerate(fragments) if opening.search(fragment))
    found = opening.search(fragments[position])
    assert found is not None
    added = declared if found[1].strip() else declared[2:]
    fragment = fragments[position]
    fragments[position] = fragment[: found.end()] + added + fragment[found.end() :]
    return tuple(fragments)
