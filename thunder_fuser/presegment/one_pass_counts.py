"""Count the elements that equal an extremum in the pass that finds it.

    T1 = max(T0);  T2 = eq(T0, T1);  T3: i64 = sum(cast(T2))
        =>   T1 = max(T0);  T4: i32 = maxima(T0);  T3: i64 = cast(T4)

Terms so far have an extremum and a number of those that equal it, which begins anew where another
one exceeds it. A NaN equals none. The gradient of an extremum is shared by so many elements. Where
a block keeps a row or a column, it is counted of registers: only what would be read again from
memory is rewritten, as for variances (`one_pass_variance.py`).
"""

from __future__ import annotations

from functools import partial

from thunder_fuser.analysis.access import reads_in_place
from thunder_fuser.analysis.precision import behind_views
from thunder_fuser.analysis.reductions import COUNTED, is_long, terms_and_results
from thunder_fuser.analysis.shared_rows import Test, read_twice
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef
from thunder_fuser.ops.reductions import EQUALS
from thunder_fuser.target import Target

_COUNTS = {name: row for row, name in EQUALS.items()}


def one_pass_counts(fusion: Fusion, is_shared: Test, target: Target) -> Fusion:
    """`fusion` with such counts in one pass. Several blocks share each row of a sum that
    `is_shared`."""
    return rewrite(fusion, partial(_rule, read_twice(fusion, is_shared, target.max_cluster)))


def _rule(is_read_twice: Test, tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    is_sum = tv.is_of("sum") and is_long(tv) and terms_and_results(tv)[0] < COUNTED
    if not is_sum or not is_read_twice(tv):
        return None
    (term,) = inputs
    assert isinstance(term, TensorView)
    match term.definition:
        case Expr(
            OpDef(name="cast"),
            (
                TensorView(
                    definition=Expr(OpDef(name="eq"), (TensorView() as a, TensorView() as b))
                ) as truth,
            ),
        ):
            for x, other in ((a, b), (b, a)):
                if (row := _counted(x, other, truth, tv.expr.dims())) is not None:
                    return call("cast", produce(row, [x], dict(tv.expr.attrs)), dtype=tv.dtype)
    return None


def _counted(
    x: TensorView, other: TensorView, truth: TensorView, dims: tuple[int, ...]
) -> OpDef | None:
    """The op that counts which of `x` are their extremum over `dims`, where `truth` asks so of an
    `other`; else None."""
    extremum = behind_views(other)
    row = None if extremum.definition is None else _COUNTS.get(extremum.expr.op.name)
    if row is None or x.dtype not in row.dtypes:
        return None
    is_of_x = extremum.expr.tensors == (x,) and extremum.expr.dims() == dims
    return row if is_of_x and reads_in_place(truth, x, extremum, dims) else None
