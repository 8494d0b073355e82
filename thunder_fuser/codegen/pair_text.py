"""Elements of 16 bits that are combined two at a time, as C++ text."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.codegen.blocks import each
from thunder_fuser.codegen.split_text import combining, identity
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.kernel.scopes import Pairs


def declared_pairs(pairs: Sequence[Pairs], places: int = 2) -> list[str]:
    """A register for each accumulator, at its identity; or of a row of columns, some of them."""
    lines = []
    for p in pairs:
        empty = f"tf::convert<{CUDA_TYPES[p.dtype]}>({identity(p.op, p.accumulator.dtype)})"
        lines.append(f"auto {_pair(p)} = tf::alike<{places}>({empty});")
    return lines


def taken_in_pairs(pairs: Sequence[Pairs]) -> list[str]:
    """What is done with a vector."""
    lines = []
    for p in pairs:
        taken = combining(p.op, p.accumulator.dtype, "a", "tf::sizes(b)" if p.of_sizes else "b")
        combine = f"[](auto a, auto b) {{ return {taken}; }}"
        lines.append(f"{_pair(p)} = tf::in_pairs({_pair(p)}, {p.vector}, {combine});")
    return lines


def unpaired(pairs: Sequence[Pairs], places: int = 2) -> list[str]:
    """All elements of the registers in the accumulator, or each in that of its lane."""
    lines = []
    for p in pairs:
        name, dtype = p.accumulator.name, p.accumulator.dtype
        value = f"tf::convert<{COMPUTE_TYPES[dtype]}>({_pair(p)}.v[lane])"
        lines.append(f"{name} = {combining(p.op, dtype, name, value)};")
    return each("lane", places, lines)


def _pair(pairs: Pairs) -> str:
    return f"{pairs.accumulator.name.removesuffix('[lane]')}_pair"
