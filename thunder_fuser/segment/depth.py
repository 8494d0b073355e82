"""How many cuts lie before each tensor.

    T1 = sum(T0, columns); T2 = T0 * T1     T1 at depth 0, T2 at depth 1: it needs T1 whole
    T3 = segment_set(T2); T4 = neg(T3)      T2 at depth 1, T4 at depth 2

A kernel computes tensors of one depth, and what it recomputes of lower ones.
"""

from __future__ import annotations

from math import prod

from thunder_fuser.analysis.reductions import (
    column_shape,
    is_long,
    is_scan,
    is_scattered,
    plane_of,
    row_shape,
)
from thunder_fuser.analysis.views import is_stop
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family


def depths(
    fusion: Fusion, opaque: frozenset[TensorView], constants: frozenset[TensorView]
) -> dict[TensorView, int]:
    """The depth of every tensor. All long reductions of one depth walk one plane; torch runs the
    `opaque` ones between kernels; `constants` are written as literals at any depth, so 0."""
    return _walk(fusion, opaque, constants)[0]


def cut_reasons(
    fusion: Fusion, opaque: frozenset[TensorView], constants: frozenset[TensorView]
) -> dict[int, str]:
    """Why there is a cut before each depth but the first: what the first tensor of that depth
    needs."""
    depth, apart, scanned = _walk(fusion, opaque, constants)
    found: dict[int, str] = {}
    for tv in fusion.tensors:
        producers = tv.definition.tensors if tv.definition is not None else ()
        before = [p for p in producers if depth[p] < depth[tv]]
        if not before or tv in opaque:
            continue
        if any(map(is_stop, before)):
            reason = _stopped(tv)
        elif any(p in opaque for p in before):
            reason = "reads what a segment of torch's computes"
        elif any(p in apart and _needs_whole(p, tv) for p in before):
            reason = "needs a reduction down columns whole"
        elif any(p in scanned for p in before):
            reason = "reads a running sum at other places"
        else:
            reason = "reduces over other axes than what is before it"
        found.setdefault(depth[tv], reason)
    return found


def _stopped(tv: TensorView) -> str:
    assert tv.definition is not None
    if tv.definition.op.family is Family.GATHER:
        return f"{tv.definition.op.name} reads what must be stored first"
    return "behind a stop point"


def _walk(
    fusion: Fusion, opaque: frozenset[TensorView], constants: frozenset[TensorView]
) -> tuple[dict[TensorView, int], set[TensorView], set[TensorView]]:
    """Depths; sums down columns or over scattered axes; running sums: both with what follows from
    them one by one."""
    found: dict[TensorView, int] = {}
    planes: dict[int, tuple[int, int] | None] = {}
    apart: set[TensorView] = set()
    scanned: set[TensorView] = set()
    for tv in fusion.tensors:
        producers = tv.definition.tensors if tv.definition is not None else ()
        cut_after = {p for p in producers if is_stop(p) or p in opaque}
        cut_after |= {p for p in producers if p in apart and _needs_whole(p, tv)}
        cut_after |= {p for p in producers if p in scanned and not _follows_a_scan(p, tv)}
        before = max((found[p] + (p in cut_after) for p in producers), default=0)
        if tv in opaque:
            before += any(p.definition is not None for p in producers)
        elif is_long(tv):
            while planes.setdefault(before, plane_of(tv)) != plane_of(tv):
                before += 1
        found[tv] = 0 if tv in constants else before
        follows = any(p in apart and found[p] == before for p in producers)
        is_apart = column_shape(tv) is not None or is_scattered(tv)
        if follows or (is_apart and tv not in opaque):
            apart.add(tv)
        follows = any(p in scanned and found[p] == before for p in producers)
        if (follows or is_scan(tv)) and tv not in opaque and not _reduces(tv):
            scanned.add(tv)
    return found, apart, scanned


def _follows_a_scan(producer: TensorView, consumer: TensorView) -> bool:
    """True for what is computed from a running sum element by element, or reduces its rows."""
    assert consumer.definition is not None
    if is_long(consumer):
        return row_shape(consumer) is not None
    is_pointwise = consumer.definition.op.family is Family.POINTWISE
    return is_pointwise and prod(consumer.shape) == prod(producer.shape)


def _reduces(tv: TensorView) -> bool:
    return any(a.is_reduction for a in tv.domain.logical)


def _needs_whole(producer: TensorView, consumer: TensorView) -> bool:
    """True where one element of `consumer` needs other columns or is needed by many rows."""
    return _reduces(consumer) or prod(consumer.shape) > prod(producer.shape)
