"""Elements of 16 bits that are combined two at a time, as C++ text."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.codegen.split_text import combining, identity
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.kernel.row_ir import Pairs


def declared_pairs(pairs: Sequence[Pairs]) -> list[str]:
    """A register of two elements for each accumulator, at its identity."""
    lines = []
    for p in pairs:
        kind = CUDA_TYPES[p.dtype]
        empty = f"tf::convert<{kind}>({identity(p.op, p.accumulator.dtype)})"
        lines.append(f"tf::Vec<{kind}, 2> {_pair(p)} = {{{empty}, {empty}}};")
    return lines


def taken_in_pairs(pairs: Sequence[Pairs]) -> list[str]:
    """What is done with a vector."""
    lines = []
    for p in pairs:
        combine = (
            f"[](auto a, auto b) {{ return {combining(p.op, p.accumulator.dtype, 'a', 'b')}; }}"
        )
        lines.append(f"{_pair(p)} = tf::in_pairs({_pair(p)}, {p.vector}, {combine});")
    return lines


def unpaired(pairs: Sequence[Pairs]) -> list[str]:
    """Both elements of the register in the accumulator."""
    lines = []
    for p in pairs:
        name, dtype = p.accumulator.name, p.accumulator.dtype
        for k in range(2):
            value = f"tf::convert<{COMPUTE_TYPES[dtype]}>({_pair(p)}.v[{k}])"
            lines.append(f"{name} = {combining(p.op, dtype, name, value)};")
    return lines


def _pair(pairs: Pairs) -> str:
    return f"{pairs.accumulator.name}_pair"
