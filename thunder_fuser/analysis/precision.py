"""Which f32 values the fast form of an op is good enough for, and which are rounded as written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Set
from math import inf, isfinite, prod

from thunder_fuser.analysis.reductions import is_long
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import Expr, TensorView, Value, is_zero
from thunder_fuser.ops import Family, OpDef

MANY_TERMS = 64  # of a sum, from which on an eighth is left of errors to both sides


def fast_enough(fusion: Fusion) -> frozenset[TensorView]:
    """The f32-computed tensors of which a relative error of 2^-14, or of 2^-24 per unit of an
    exponent, cannot be found in any result.

    Every use of theirs ends, through floating-point ops, in a returned or written f16 or bf16: an
    error of 2^-14 vanishes in the final rounding, unless a comparison, a jump (floor, remainder),
    an integer or a wider result depends on it. Or it is a sum of terms exp(x - max(x)), softmax's
    denominator: the fast exponential of -d is off by d * 2^-24, and d * exp(-d) < 0.37, so that
    together the terms are as exact as the sum of their exact values is, whose largest term is 1.
    So are several such sums that are added, below the largest of all of their maxima.
    Or it is a sum of terms d * exp(-d), of an entropy: together they are off by 0.55 * 2^-24 for
    each term at most, of a sum that is added to the logarithm of the former. No other factor will
    do: where exp(-d) is too small for f32's normal numbers the fast one is 0, and 0 times infinity
    no number.
    Or it is a factor of the terms of a long sum, of a function whose fast form errs by little and
    to both sides alike: of many such errors the sum has less than of its own roundings.
    Shares that are terms of a long sum of other rows are products with one part of a reciprocal: a
    unit or two off, each row by another one. Their exponentials are fast ones, as those of the sums
    by which they are divided: off by d units and to both sides alike, of shares of exp(-d).
    """
    roots = frozenset(fusion.roots)
    wide: set[TensorView] = set()
    exact: set[TensorView] = set()  # wide ones of which another use is wide than as such a factor
    parts: set[TensorView] = set()  # sums that are added to others, below one maximum
    for tv in reversed(fusion.tensors):
        is_float = tv.dtype.is_floating and tv.dtype is not DataType.Double
        if not is_float or (tv in roots and not tv.dtype.is_reduced_precision):
            wide.add(tv)
            exact.add(tv)
        if tv.definition is not None and (tv in wide or tv.definition.op.is_step):
            parts |= _joined(tv)
            is_factor = tv not in exact and tv.definition.op.name in ("mul", "neg", "cast")
            is_even = is_factor or _is_long_sum(tv)
            for source in tv.definition.tensors:
                exponents = source.definition if tv in parts else None
                known = _exponents(tv, source) or _divided(tv, source)
                needed = exponents.tensors if exponents else known
                wide.update(needed or [source])
                exact.update(needed or ([] if is_even else [source]))
    return frozenset(tv for tv in fusion.tensors if tv not in wide or _errs_evenly(tv, exact))


def _is_long_sum(tv: TensorView) -> bool:
    reduced = (axis.size for axis in tv.domain.logical if axis.is_reduction)
    return tv.is_of("sum") and prod(reduced) >= MANY_TERMS


def _errs_evenly(tv: TensorView, exact: Set[TensorView]) -> bool:
    return tv not in exact and tv.definition is not None and tv.definition.op.fast_in_sums


def compared(fusion: Fusion) -> frozenset[TensorView]:
    """What the two sides of a comparison with an extremum are made of. An extremum of the same
    values is one of them only if each is rounded alike wherever a kernel computes it: where the
    compiler contracts a product into an FMA in one scope and not in another, or one kernel reads in
    16 bits what another has in a register, no element equals it, and the gradient divides by their
    number, 0. What is asked of an extremum alone, as whether it is infinite, looks for no
    element."""
    sides = (made.tensors for made in _tests(fusion) if len(made.tensors) > 1)
    counted = (tv.expr.tensors for tv in fusion.tensors if tv.is_of("maxima") or tv.is_of("minima"))
    found = (both for both in sides if any(map(_is_extremum, both)))
    return frozenset(topological(tv for both in (*found, *counted) for tv in both))


def told_apart(fusion: Fusion) -> frozenset[TensorView]:
    """What of 16 bits is rounded wherever a kernel computes it, as a comparison tells it from
    others: two kernels, of which one reads it in memory, or a result and the mask beside it, would
    disagree. Of which side of 0 it is rounding changes nothing; whether it is infinite, in f16
    alone. And what is narrowed and meets what it is made of, which asks for what that took."""
    found = {half for tv in fusion.tensors for half in _halves(tv)}
    for made in _tests(fusion):
        sides = [tv for tv in made.tensors if tv.dtype.is_floating and not _is_drawn(tv)]
        numbers = [x.value for x in made.inputs if isinstance(x, Constant)]
        if made.op.name in _INFINITE or any(map(_is_infinite, numbers)):
            asked = [tv for tv in sides if not _is_extremum(tv)]
            found |= {tv for tv in topological(asked) if tv.dtype is DataType.Half}
        elif made.op.name in _COMPARISONS and (0 not in numbers or any(map(_is_difference, sides))):
            found |= {tv for tv in topological(sides) if tv.dtype.is_reduced_precision}
    return frozenset(tv for tv in found if not _is_one_of_its_own(tv))


def _is_one_of_its_own(tv: TensorView) -> bool:
    """True for an element of tensors of its type, or its opposite, which has no more digits."""
    made = tv.definition
    if made is None or made.op.name not in ("abs", "neg", "maximum", "minimum", "where"):
        return False
    of_type = (x.dtype in (tv.dtype, DataType.Bool) for x in made.tensors)
    return len(made.tensors) == len(made.inputs) and all(of_type)


_INFINITE = frozenset({"isfinite", "isinf", "isposinf", "isneginf"})
_COMPARISONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge"})


def _tests(fusion: Fusion) -> Iterator[Expr]:
    for tv in fusion.tensors:
        if tv.dtype is DataType.Bool and tv.definition is not None:
            yield tv.definition


def _halves(tv: TensorView) -> Iterator[TensorView]:
    """What `tv` is made of beside that from which it was narrowed."""
    read = tv.definition.tensors if tv.definition is not None else ()
    for other in read:
        narrow = other.producers[0] if other.is_of("cast") else other
        if narrow.is_of("cast") and narrow.dtype.is_reduced_precision:
            yield from (narrow for source in narrow.producers if source in read)


def _is_drawn(tv: TensorView) -> bool:
    """True for random numbers, of which a share is below a bound as exactly as they have digits."""
    return _behind_casts(tv).family is Family.RANDOM


def _is_difference(tv: TensorView) -> bool:
    """True for one, of which a comparison with 0 tells whose terms is larger."""
    tv = _behind_casts(tv)
    return tv.definition is not None and tv.definition.op.name in ("sub", "sub_alpha")


def _behind_casts(tv: TensorView) -> TensorView:
    while tv.is_of("cast"):
        (tv,) = tv.producers
    return tv


def _is_infinite(number: object) -> bool:
    return isinstance(number, float) and abs(number) == inf


def _is_extremum(tv: TensorView) -> bool:
    """True for one, and for the larger one of several or an extremum of others turned round."""
    todo, seen = [tv], set[TensorView]()
    while todo:
        tv = todo.pop()
        if tv in seen or tv.definition is None:
            continue
        seen.add(tv)
        if tv.definition.op.name in ("max", "min"):
            return True
        if tv.family is Family.VIEW or tv.definition.op.name in _KEEPING:
            todo += tv.definition.tensors
    return False


_KEEPING = frozenset({"cast", "maximum", "minimum", "neg", "abs"})


def _exponents(summed: TensorView, term: TensorView) -> tuple[TensorView, ...]:
    """The exponents of such terms, on which a sum depends as on any value; empty for others."""
    term = behind_turns(term)
    if term.dtype is not DataType.Float or not summed.is_of("sum") or term.definition is None:
        return ()
    if _largest_below(term, behind_turns) is not None:
        return term.definition.tensors
    match term.definition:
        case Expr(OpDef(name="mul"), (TensorView() as left, TensorView() as right)):
            for below, raised in ((left, right), (right, left)):
                if distance_from_max(raised) is not None and raised.expr.inputs == (below,):
                    return (below,)
    return ()


def _joined(tv: TensorView) -> set[TensorView]:
    """The sums of exp(x - m) of which `tv` is the sum, m the largest of all x; empty for others."""
    sums = set(_combined(tv, "add"))
    below = [pair for s in sums if (pair := _below(s)) is not None]
    if len(sums) == 1 or len(below) < len(sums) or len({top for _, top in below}) > 1:
        return set()
    made = (m.definition for m in _combined(below[0][1], "maximum") if m.is_of("max"))
    largest_of = {source for expr in made if expr is not None for source in expr.tensors}
    return sums if {x for x, _ in below} <= largest_of else set()


def _combined(tv: TensorView, name: str) -> Iterator[TensorView]:
    """What ops of that name make `tv` of."""
    todo = [tv]
    while todo:
        found = behind_views(todo.pop())
        if found.is_of(name):
            todo += found.producers
        else:
            yield found


def _below(summed: TensorView) -> tuple[TensorView, TensorView] | None:
    """x and m of a sum of exp(x - m)."""
    match summed.definition:
        case Expr(OpDef(name="sum"), (TensorView(definition=Expr(OpDef(name="exp"), (of,))),)):
            pass
        case _:
            return None
    match of:
        case TensorView(definition=Expr(OpDef(name="sub"), (TensorView() as x, TensorView() as m))):
            return x, behind_views(m)
    return None


def exponent_summed(tv: TensorView) -> Value | None:
    """x - max(x) where `tv` is log(sum(exp(x - max(x)))), of each row."""
    match behind_views(tv).definition:
        case Expr(OpDef(name="log"), (TensorView() as summed,)):
            match behind_views(summed).definition:
                case Expr(OpDef(name="sum"), (TensorView(definition=Expr() as made) as term,)):
                    return made.inputs[0] if distance_from_max(term) is not None else None
    return None


def behind_views(tv: TensorView) -> TensorView:
    """The tensor of which `tv` is a view."""
    while tv.family is Family.VIEW:
        (tv,) = tv.producers
    return tv


def behind_turns(tv: TensorView) -> TensorView:
    """The tensor of which `tv` is a permutation: columns that are reduced as rows are one."""
    while tv.is_of("permute"):
        (tv,) = tv.producers
    return tv


def _divided(summed: TensorView, term: TensorView) -> tuple[TensorView, ...]:
    """What is divided, or its exponent, and by what a row has one of, in terms of a long sum of
    several rows; empty for others."""
    if term.dtype is not DataType.Float or not (summed.is_of("sum") and is_long(summed)):
        return ()
    while term.family in (Family.VIEW, Family.PAD):
        term = term.producers[0]
    match term.definition:
        case Expr(OpDef(name="div"), (TensorView(), TensorView() as by)) if (
            by.family is Family.VIEW and is_from_one(behind_views(by))
        ):
            (above,) = (tv for tv in term.expr.tensors if tv is not by)
            is_below = distance_from_max(above) is not None
            return (*(above.expr.tensors if is_below else (above,)), by)
    return ()


def is_from_one(tv: TensorView) -> bool:
    """True for softmax's denominator, one of whose terms is 1; without numbers it may be 0."""
    if not tv.is_of("sum") or tv.definition is None:
        return False
    return _largest_below(behind_turns(tv.definition.tensors[0]), behind_turns) is not None


def distance_from_max(tv: TensorView) -> TensorView | None:
    """The maximum m of x where `tv` is exp(x - m), or exp(x - n) for a number n wherever m is
    infinite."""
    return _largest_below(tv, lambda x: x)


def maximum_below(tv: TensorView) -> TensorView | None:
    """The same of such a distance itself, of which no exponential is asked for."""
    return _subtracted(tv, lambda x: x)


def _largest_below(tv: TensorView, same: Callable[[TensorView], TensorView]) -> TensorView | None:
    """The same, where x and what m is the largest of are the `same` tensor of both."""
    match tv.definition:
        case Expr(OpDef(name="exp"), (TensorView() as below,)):
            return _subtracted(below, same)
    return None


def _subtracted(tv: TensorView, same: Callable[[TensorView], TensorView]) -> TensorView | None:
    match tv.definition:
        case Expr(OpDef(name="sub"), (TensorView() as x, TensorView() as top)):
            return _max_of(top, x, same)
    return None


def in_sight(tv: TensorView) -> TensorView:
    """d where `tv` is that, and 0 where exp(d) vanishes; else `tv`."""
    match tv.definition:
        case Expr(
            OpDef(name="where"),
            (TensorView(definition=Expr(OpDef(name="eq"), (raised, zero))), nothing, below),
        ) if isinstance(raised, TensorView) and isinstance(below, TensorView):
            is_own = raised.is_of("exp") and raised.expr.inputs == (below,)
            return below if is_own and is_zero(zero) and is_zero(nothing) else tv
    return tv


def is_guarded(tv: TensorView) -> bool:
    """True where `distance_from_max` is from a number if the maximum is infinite."""
    top = tv
    while top.definition is not None and top.definition.op.name != "max":
        if _of_finite(top) is not None:
            return True
        top = top.definition.tensors[-1]
    return False


def _of_finite(tv: TensorView) -> TensorView | None:
    """m where `tv` is that, or a number wherever it is infinite."""
    match tv.definition:
        case Expr(OpDef(name="where"), (TensorView() as is_infinite, number, TensorView() as m)):
            tested = _infinite(behind_views(is_infinite))
            is_told = tested is not None and behind_views(tested) is behind_views(m)
            return m if is_told and _is_finite(number) else None
    return None


def _infinite(tv: TensorView) -> TensorView | None:
    """What `tv` tells to be infinite."""
    match tv.definition:
        case Expr(OpDef(name="isinf"), (TensorView() as m,)):
            return m
        case Expr(OpDef(name="eq"), (TensorView(definition=Expr(OpDef(name="abs"), (m,))), number)):
            is_told = isinstance(number, Constant) and number.value == inf
            return m if is_told and isinstance(m, TensorView) else None
    return None


def _is_finite(value: Value) -> bool:
    if isinstance(value, TensorView):
        return value.family is Family.FULL and _is_finite(value.expr.inputs[0])
    return (
        isinstance(value, Constant)
        and isinstance(value.value, float | int)
        and isfinite(value.value)
    )


def _max_of(
    top: TensorView, x: TensorView, same: Callable[[TensorView], TensorView]
) -> TensorView | None:
    while True:
        top = behind_views(top)
        match top.definition:
            case Expr(OpDef(name="where")) if (of_finite := _of_finite(top)) is not None:
                top = of_finite
            case Expr(OpDef(name="max"), (TensorView() as source,)):
                return top if same(source) is same(x) else None
            case _:
                return None
