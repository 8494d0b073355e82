"""Multiply the largest magnitude of a row by what the row has one of, rather than its elements.

    T1 = sum(mul(T0, T0));  T2 = rsqrt(T1);  T3 = max(abs(mul(mul(T0, T2), w)))
        =>   T3 = mul(abs(T2), max(abs(mul(T0, w))))

The scale of a norm that is stored in 8 bits is so: the largest element then waits for no sum, and a
row is read, computed and waited for once less. Of f32 and f64, whose products are off by a rounding
or two. Not of a magnitude that is looked for among the elements, in this fusion or, where it is
returned, in a gradient: none of them would be it. Nor of one from which they are taken, or of whose
shares functions are: an element would lie beyond it. Not with `strict`.
"""

from __future__ import annotations

from collections.abc import Iterator

from thunder_fuser.analysis.precision import behind_views, compared
from thunder_fuser.analysis.reductions import is_along, is_long_reduction, row_shape, terms_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.factor_sums import OfRows, exact_step, of_rows
from thunder_fuser.presegment.stages import product


def factor_maxima(fusion: Fusion) -> Fusion:
    """`fusion` with such factors behind the maxima."""
    looked_for = {*compared(fusion), *map(_behind_casts, fusion.roots)}
    known: dict[object, OfRows] = {}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if not (tv.is_of("max") and is_along(tv)) or tv in looked_for or not _scales(fusion, tv):
            return None
        made = again(tv.expr, inputs)
        return _drawn_out(made, of_rows(made, known))

    return rewrite(fusion, rule)


_SCALING = frozenset({"abs", "cast", "clamp", "div", "maximum", "minimum", "mul", "neg",
                      "reciprocal", "round", "truediv", "where"})  # fmt: skip


def _scales(fusion: Fusion, tv: TensorView) -> bool:
    """True where what follows from `tv` is multiplied, divided, rounded and limited alone."""
    todo, seen = [tv], set[TensorView]()
    while todo:
        for use in fusion.uses[todo.pop()]:
            if use.dtype is DataType.Bool:  # a test that chooses is that of a limit
                if not all(other.is_of("where") for other in fusion.uses[use]):
                    return False
            elif use.family is not Family.VIEW and use.expr.op.name not in _SCALING:
                return False
            if use not in seen:
                seen.add(use)
                todo.append(use)
    return True


def _behind_casts(tv: TensorView) -> TensorView:
    """The tensor of which `tv` is a view, or a cast."""
    while (inner := behind_views(tv)).is_of("cast"):
        (tv,) = inner.producers
    return inner


def _drawn_out(tv: TensorView, rows: OfRows) -> TensorView | None:
    """The maximum of magnitudes without the factors that wait for a reduction of their rows."""
    match exact_step(terms_of(tv)):
        case ("abs", (TensorView() as magnitudes,)):
            factors = list(_factors(magnitudes))
        case _:
            return None
    late = [f for f in factors if (value := rows.value(f)) is not None and _waits(value, tv)]
    rest = [f for f in factors if f not in late]
    if not late or not rest or not all(map(rows.are_terms, rest)):
        return None
    made = again(tv.expr, [call("abs", product(rest))])
    drawn = [x for f in late if isinstance(x := rows.value(f), TensorView)]
    return call("mul", call("abs", product(drawn)), made)


def _factors(tv: TensorView) -> Iterator[TensorView]:
    """What a product is made of."""
    match exact_step(tv):
        case ("mul", (TensorView() as a, TensorView() as b)) if a.shape == b.shape:
            yield from _factors(a)
            yield from _factors(b)
        case _:
            yield tv


def _waits(value: Value, tv: TensorView) -> bool:
    """True for what depends on a reduction of the same rows."""
    if not isinstance(value, TensorView):
        return False
    before = topological([value])
    return any(is_long_reduction(t) and row_shape(t) == row_shape(tv) for t in before)
