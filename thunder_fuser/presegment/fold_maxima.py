"""Take the largest share of a softmax from the sum alone.

    T1 = max(T0);  T2 = exp(sub(T0, T1));  T3 = sum(T2)        T5 = exp(sub(T1, T1))
    T4 = max(div(T2, T3))                                =>    T4 = div(T5, T3)

as of the confidence of a classifier, or the least share that is sampled: the largest element has
the largest share, and neither an exponential nor a division puts another one above it. A row is
read, computed and waited for once less. Not where the largest one is looked for, as by a one-hot
of it: of all elements at once quotients may be rounded otherwise than of one.
"""

from __future__ import annotations

from thunder_fuser.analysis.precision import behind_views, compared, distance_from_max
from thunder_fuser.analysis.reductions import terms_of
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef
from thunder_fuser.presegment.factor_sums import OfRows, of_rows


def fold_maxima(fusion: Fusion) -> Fusion:
    """`fusion` with such maxima of each row."""
    looked_for = {tv for tv in compared(fusion) if tv.is_of("max")}
    known: dict[object, OfRows] = {}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if not tv.is_of("max") or tv in looked_for:
            return None
        made = again(tv.expr, inputs)
        return largest_share(terms_of(made), of_rows(made, known))

    return rewrite(fusion, rule)


def largest_share(shares: TensorView, rows: OfRows) -> TensorView | None:
    """The largest of exponentials below a maximum, also divided by a sum of such; None for
    others."""
    if (top := distance_from_max(shares)) is not None:
        of_row = rows.value(shares.expr.tensors[0].expr.inputs[1])
        if of_row is None or top.expr.attrs != rows.tv.expr.attrs:
            return None
        return call("exp", call("sub", top, of_row))
    match shares.definition:
        case Expr(OpDef(name="div"), (TensorView() as raised, TensorView() as total)):
            of_row, largest = rows.value(total), largest_share(raised, rows)
            if of_row is not None and largest is not None and _is_sum_of_powers(total):
                return call("div", largest, of_row)
    return None


def _is_sum_of_powers(total: TensorView) -> bool:
    """True for what is not below 0."""
    summed = behind_views(total)
    return summed.is_of("sum") and terms_of(summed).is_of("exp")
