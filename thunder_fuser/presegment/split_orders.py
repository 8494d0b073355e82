"""Put a long index in order digit by digit.

    T1 = group_order(T0, 200000); T2 = group_keys(T0, T1, 200000)      T0: 2^20 places
        =>   T3 = digit_counts(T0, 200000, low=0)        T4 = digit_order(T0, T3)
             T5 = digit_keys(T0, T3)                     T6 = digit_counts(T5, 200000, low=9)
             T1 = digit_reorder(T5, T6, T4)              T2 = digit_keys(T5, T6)

The kernel that puts an index in order at once has blocks that read all of it. Stages read it once
for the counts and once to move it, whatever the number of groups. What they make has 32 bits, so an
order that is returned stays as it is.
"""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.analysis.digit_stages import chunk_of, is_worth_stages, stages_of
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Attr, TensorView, Value

_PUT = ("group_order", "group_keys")


def split_orders(fusion: Fusion) -> Fusion:
    """`fusion` itself where an order is returned, or none is long."""
    if any(tv.is_of(*_PUT) for tv in fusion.roots):
        return fusion
    keys_of: dict[Value, TensorView] = {}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if tv.is_of("group_keys"):
            return keys_of.get(inputs[1])
        groups = _groups(tv)
        if groups is None or not is_worth_stages(tv.shape[0], groups):
            return None
        assert isinstance(inputs[0], TensorView)
        order, keys = in_stages(inputs[0], tv.expr.attr("count"), stages_of(groups))
        keys_of[order] = keys
        return order

    return rewrite(fusion, rule)


def in_stages(
    index: TensorView, count: Attr, stages: Sequence[tuple[int, int]], chunk: int = 0
) -> tuple[TensorView, TensorView]:
    """The order of an index of places below `count` and its keys in that order, by digits that
    begin at a bit and have so many. The blocks of a stage have `chunk` places; 0 for what suits."""
    keys, order = index, None
    for low, bits in stages:
        size = chunk or chunk_of(index.shape[0], bits)
        digit: dict[str, Attr] = {"low": low, "bits": bits, "chunk": size}
        counts = call("digit_counts", keys, count=count, **digit)
        if order is None:
            order = call("digit_order", keys, counts, **digit)
        else:
            order = call("digit_reorder", keys, counts, order, **digit)
        keys = call("digit_keys", keys, counts, **digit)
    assert order is not None
    return order, keys


def _groups(tv: TensorView) -> int | None:
    """How many groups `tv` puts an index in order of; None for what does not, or an extent that is
    not known."""
    if not tv.is_of("group_order"):
        return None
    count = tv.expr.attr("count")
    assert isinstance(count, tuple)
    return sc.static_int(count[0])  # type: ignore[arg-type]
