"""Take one sum of exponentials where two differ in rows whose maximum is infinite alone.

    T2 = sum(exp(x - where(m is infinite, 0, m)))         T2 = where(m is infinite, exp(m), T4)
    T4 = sum(exp(x - m))                             =>   T4 = sum(exp(x - m))

with m = max(x), as where softmax and log_softmax of one tensor meet in an entropy. The guarded sum
of a row is infinite where its maximum is, and 0 where all of it is minus infinity.
"""

from __future__ import annotations

from thunder_fuser.analysis.access import reads_in_place
from thunder_fuser.analysis.precision import distance_from_max, is_guarded
from thunder_fuser.analysis.reductions import terms_of
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value


def share_exponentials(fusion: Fusion) -> Fusion:
    """`fusion` with such pairs of sums shared."""
    plain: dict[object, TensorView] = {}
    guarded: dict[TensorView, tuple[object, TensorView]] = {}
    for tv in fusion.tensors:
        top = _maximum_below(tv)
        if top is None:
            continue
        key = (top, tv.dtype, tv.expr.attrs)
        if is_guarded(terms_of(tv)):
            guarded[tv] = key, top
        else:
            plain[key] = tv
    if not any(key in plain for key, _ in guarded.values()):
        return fusion

    def share(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if tv not in guarded or inputs != tv.expr.inputs:
            return None
        key, top = guarded[tv]
        if key not in plain:
            return None
        is_infinite = call("eq", call("abs", top), sc.constant(float("inf")))
        return call("where", is_infinite, call("exp", top), plain[key])

    return rewrite(fusion, share)


def _maximum_below(tv: TensorView) -> TensorView | None:
    """The maximum m of x where `tv` is a sum of exp(x - m), guarded or not, over the same axes."""
    top = distance_from_max(terms_of(tv)) if tv.is_of("sum") else None
    if top is None or top.dtype is not tv.dtype or top.expr.dims() != tv.expr.dims():
        return None
    (x,) = top.expr.tensors
    return top if reads_in_place(terms_of(tv), x, top, top.expr.dims()) else None
