"""Store what was gathered element by element once, where many planes read it.

    T3: f32[i6, i49, i49] = permute(reshape(index_select(T1, T2)))     bias of attention scores
    T4: f32[b4096, i6, i49, i49] = broadcast_in_dim(T3)
        =>   T3' = segment_set(T3); T4 = broadcast_in_dim(T3')

An element of such a plane takes two loads that wait for each other and a dozen instructions in each
pass over its row, beside one of what is stored. Rows of a table that are gathered whole, as
embeddings, have one index for all of a row: they stay where they are read.
"""

from __future__ import annotations

from math import prod

from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef
from thunder_fuser.presegment.stop_gathers import needs_of

MIN_PLANES = 8  # that read each element
MIN_ELEMENTS = 1 << 22  # of these: a launch more takes as long as 4 million elements do


def gather_once(fusion: Fusion) -> Fusion:
    """`fusion` with stop points behind what is gathered so."""
    return rewrite(fusion, _stored)


def _stored(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    match tv.definition, inputs:
        case Expr(OpDef(domain="broadcast_in_dim" | "expand")) as expr, (TensorView() as x, *sizes):
            is_shared = prod(tv.shape) >= max(MIN_ELEMENTS, MIN_PLANES * prod(x.shape))
            if is_shared and _is_gathered_singly(x):
                return again(expr, (call("segment_set", x), *sizes))
    return None


def _is_gathered_singly(tv: TensorView) -> bool:
    """True where elements side by side are gathered from places of their own."""
    innermost = next((a for a in reversed(tv.logical) if a.size != 1), None)
    places = needs_of(tv).places_read
    return any(innermost in form.bases for place in places for form in place.index)
