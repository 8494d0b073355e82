"""Kernel text with its integer literals set apart.

    fragments ("i = b * ", " + t;")  literals (256,)      =>      i = b * 256 + t;

Two kernels of one family differ in literals only, so a family that keeps changing can be compiled
once with those literals as parameters (`lift`), and every member of it is then a launch with other
numbers. Whether a kernel belongs to a family is decided by comparing its fragments: lifting never
changes what a kernel means.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import TypeAlias

from thunder_fuser.dtypes import DataType

_INT_LIMIT = 2**31

# Pairs of a literal's position and that of the literal whose parameter it takes: its own, or one
# before it that differs from it by the same amount in all members of the family.
Lifting: TypeAlias = tuple[tuple[int, int], ...]


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
    is this one. A kernel that `is_alone` knows all its numbers, however many of its family there
    are. A launch has `moved` bytes at most to read and write.
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
    is_alone: bool = field(default=False, compare=False)
    moved: int = field(default=0, compare=False)

    @property
    def text(self) -> str:
        """The CUDA C++ translation unit."""
        pieces = zip_longest(self.fragments, map(str, self.literals), fillvalue="")
        return "".join(piece for pair in pieces for piece in pair)


def is_wide(literal: int) -> bool:
    """True for a literal of more than 32 bits."""
    return not -_INT_LIMIT <= literal < _INT_LIMIT


def lift(source: Source, lifting: Lifting) -> Source:
    """`source` with the literals of `lifting` replaced by parameters `n0`, `n1`, ... and by sums of
    those and a number.

    A parameter has the type its literal has in C++, so arithmetic keeps its width.
    """
    takes = dict(lifting)
    names = {lender: f"n{k}" for k, lender in enumerate(lenders(lifting))}
    fragments, literals = [source.fragments[0]], []
    for position, (literal, tail) in enumerate(
        zip(source.literals, source.fragments[1:], strict=True)
    ):
        if position in takes:
            lender = takes[position]
            fragments[-1] += _moved(names[lender], literal - source.literals[lender]) + tail
        else:
            literals.append(literal)
            fragments.append(tail)
    lifted = [_parameter(name, source.literals[lender]) for lender, name in names.items()]
    return replace(
        source,
        fragments=_declare(source.name, fragments, lifted),
        literals=tuple(literals),
        parameters=(*source.parameters, *lifted),
        hints=frozenset(),
        counts=frozenset(),
        general=None,
    )


def lenders(lifting: Lifting) -> tuple[int, ...]:
    """The positions of the literals that become parameters, in the order of these."""
    return tuple(sorted({lender for _, lender in lifting}))


def _moved(name: str, by: int) -> str:
    return f"({name} {'+' if by > 0 else '-'} {abs(by)})" if by else name


def _parameter(name: str, literal: int) -> Parameter:
    dtype = DataType.Int if is_wide(literal) else DataType.Int32
    return Parameter(name, dtype, is_pointer=False)


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
