"""Sum exponentials below the maximum of a column, or a shared row, in the pass that finds it.

    T1 = max(T0);  T2 = sub(T0, T1);  T3 = exp(T2);  T4 = sum(T3)
        =>   T1 = max(T0);  T5 = exponentials(T0);  T4 = add(T5, sub(T1, T1))

Sums are of what is below the largest term so far, and scaled where that grows, as along rows that
T3 streams (`schedule/streams.py`). Below an infinite maximum they are no number, as inf - inf is,
unless the trace takes another one in its place:

    T2 = where(isinf(T1), 0, T1);  T3 = exp(T0 - T2)   =>   T4 = exponentials(T0)

Where a block keeps columns, both passes read registers. So only those are rewritten that would be
read again from memory: long ones, odd ones that are packed (`presegment/pack_rows.py`), and rows
that several blocks share.
"""

from __future__ import annotations

from functools import partial

from thunder_fuser.analysis.access import reads_in_place
from thunder_fuser.analysis.kept_rows import are_kept, are_packed
from thunder_fuser.analysis.precision import distance_from_max, is_guarded
from thunder_fuser.analysis.reductions import column_shape, is_long, plane_of, stored_planes
from thunder_fuser.analysis.shared_rows import Test
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops.reductions import EXPONENTIALS
from thunder_fuser.target import Target

MIN_PACKED = 1024  # rows of odd columns, below which blocks keep them one by one


def one_pass_exponentials(fusion: Fusion, is_shared: Test, target: Target) -> Fusion:
    """`fusion` with such sums in one pass. Several blocks share each row of a sum that
    `is_shared`."""
    stored = stored_planes(fusion, column_shape)

    def is_read_twice(tv: TensorView) -> bool:
        shape = column_shape(tv)
        if shape is None:
            return is_shared(tv)
        rows, columns = shape
        is_packed = rows >= MIN_PACKED and plane_of(tv) == (rows, columns)
        if is_packed and are_packed(fusion, rows, columns):
            return True
        blocks = target.max_cluster if (rows, columns) in stored else 1
        return not are_kept(fusion, rows, columns, blocks)

    return rewrite(fusion, partial(_rule, is_read_twice))


def _rule(is_read_twice: Test, tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    if not tv.is_of("sum") or not is_long(tv) or not is_read_twice(tv):
        return None
    (term,) = inputs
    assert isinstance(term, TensorView)
    top = distance_from_max(term)
    if top is None or top.dtype not in EXPONENTIALS.dtypes or term.dtype is not top.dtype:
        return None
    (x,), dims = top.expr.tensors, tv.expr.dims()
    if top.expr.dims() != dims or not reads_in_place(term, x, top, dims):
        return None
    total = produce(EXPONENTIALS, [x], {"dims": dims})
    return total if is_guarded(term) else call("add", total, call("sub", top, top))
