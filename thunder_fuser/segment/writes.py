"""Writes in place: those whose order does not matter, and those that go straight to their target.

T0 <- T2; T0 <- T3                  =>   T0 <- T3
T0 <- T1; T1 <- T0                  =>   T2 = set(T0); T3 = set(T1); T0 <- T3; T1 <- T2

T3 = T0 + T2; T0 <- T2                   one kernel: each thread reads its element first
T3 = segment_set(T2) + T0; T0 <- T2      T2 waits in memory, and a kernel behind T3 copies it
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.kernels import Kernels
from thunder_fuser.segment.memory import Memory
from thunder_fuser.segment.segment import Store


def settle_writes(fusion: Fusion) -> Fusion:
    """`fusion` with writes whose order does not matter: the last one of each target, and a saved
    value for every input that is written into one input and over by another write."""
    last = {w.target: w.value for w in fusion.writes}
    crossed = set(last.values()) & set(last)
    if len(last) == len(fusion.writes) and not crossed:
        return fusion
    saved = {tv: call("set", tv) for tv in fusion.tensors if tv in crossed}
    final = {w.value: saved.get(last[w.target], last[w.target]) for w in fusion.writes}
    outputs = tuple(final.get(tv, tv) for tv in fusion.outputs)
    writes = tuple(Write(saved.get(value, value), target) for target, value in last.items())
    return Fusion(fusion.inputs, outputs, writes)


def stores_of(kernels: Kernels, depth: int) -> tuple[list[Store], list[Write]]:
    """What the kernels of one depth store, and the writes that must wait until every reader of the
    old value is done: their values are in memory meanwhile."""
    memory = kernels.memory
    writes = memory.writes(depth)
    ready = [w for w in writes if w.value not in memory.depth.opaque]
    direct = [w for w in ready if not _is_read_later(memory, w.target, depth)]
    postponed = [w for w in writes if w not in direct]
    stores = _stores(memory, depth, direct, postponed)
    if direct and not kernels.may_write(kernels.groups(stores)):
        return _stores(memory, depth, [], writes), writes
    return stores, postponed


def _stores(
    memory: Memory, depth: int, direct: Sequence[Write], postponed: Sequence[Write]
) -> list[Store]:
    known = {**memory.values, **memory.stored[depth]}
    waiting = [w.value for w in postponed if w.value not in known]
    values = [tv for tv in memory.stored[depth] if tv not in memory.depth.opaque]
    stores = [Store(tv, tv) for tv in dict.fromkeys((*values, *waiting))]
    return [*stores, *(Store(w.value, w.target) for w in direct)]


def _is_read_later(memory: Memory, target: TensorView, depth: int) -> bool:
    return any(_is_read(memory, target, later) for later in memory.stored if later > depth)


def _is_read(memory: Memory, target: TensorView, depth: int) -> bool:
    made = (tv.definition for tv in memory.made(depth))
    stack, seen = [p for expr in made if expr is not None for p in expr.tensors], set()
    while stack:
        tv = stack.pop()
        if memory.storage(tv) is target:
            return True
        if tv not in seen and tv not in memory.values:
            seen.add(tv)
            stack.extend(tv.producers)
    return False
