"""Sums of terms below the maximum of a row, from those of pieces of the row below their own.

    sum(exp(x - M) g) = sum over pieces of exp(m - M) (sum(exp(x - m) g') + c sum(exp(x - m)))

where M is the maximum of the row, m of a piece, and g' what g is with m in place of M. It is a sum
of distances below maxima, that which the exponential has or others, and of what depends on none; c
is what these distances lose from m to M. So partial sums are moved as those of exponentials are
scaled (Milakov and Gimelshein, Online normalizer calculation for softmax, arXiv:1805.02867).

Without the exponential nothing is scaled. So are the terms of a cross entropy whose targets are
probabilities, the logarithm taken out of it:

    sum((x - M) w) = sum over pieces of sum((x - m) w) + (m - M) sum(w)

Where an exponential vanishes its distance may be 0 instead, as in x log(x):
`where(eq(exp(d), 0), 0, d)`. Pieces and rows of nothing but -inf are below the least number; below
an infinite maximum the sums of a row are no number, as inf - inf is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

from thunder_fuser.analysis.access import reads_in_place
from thunder_fuser.analysis.precision import in_sight, is_guarded, maximum_below
from thunder_fuser.analysis.reductions import WALKED
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import again, call, produce
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import OpDef, op
from thunder_fuser.presegment.parts import MAX_FLOAT, nearest_finite
from thunder_fuser.presegment.share_sums import factors_of
from thunder_fuser.presegment.stages import (
    constants,
    expanded,
    product,
    reduced,
    reshaped,
    widened,
)

Steps = Mapping[TensorView, float]  # how often the distance below each maximum is in a sum


@dataclass(frozen=True)
class Below:
    """Terms that are the exponential of a distance below `top`, times `weights` that depend on no
    maximum, times a sum of distances, `others`, which may be none; or a distance below `top` times
    weights, without a value that is `raised`."""

    top: TensorView
    raised: TensorView | None
    weights: tuple[TensorView, ...]
    others: TensorView | None
    steps: Steps
    is_negative: bool

    @property
    def tops(self) -> tuple[TensorView, ...]:
        """The maxima that it depends on."""
        return tuple(dict.fromkeys((self.top, *self.steps)))

    @property
    def scaled(self) -> tuple[TensorView, ...]:
        """The factors but the distances."""
        return *_some(self.raised), *self.weights


def below_maxima(
    terms: TensorView, tops: Collection[TensorView], behind: set[TensorView]
) -> Below | None:
    """What `terms` are that depend on `tops` alone of what is `behind` reductions of their rows;
    None for others."""
    if terms.dtype is not DataType.Float:
        return None
    factors, is_negative = factors_of(terms)
    late = [f for f in factors if _is_late(f, behind)]
    raised_of = (f for f in late if f.is_of("exp"))
    tops_of = {f: top for f in raised_of if (top := _top(f.producers[0])) is not None}
    weights = tuple(f for f in factors if not _is_late(f, behind))
    if len(late) > 2 or any(f.shape != terms.shape for f in factors):
        return None
    only = _plain_top(late[0]) if len(late) == 1 and weights else None
    if only is not None and only in tops:
        return Below(only, None, weights, late[0], {only: 1.0}, is_negative)
    if not tops_of:
        return None
    raised, top = next(iter(tops_of.items()))
    late.remove(raised)
    steps = _steps(late[0], behind) if late else {}
    if steps is None or not {top, *steps} <= set(tops) or (late and is_guarded(raised)):
        return None
    return Below(top, raised, weights, late[0] if late else None, steps, is_negative)


def _is_late(tv: TensorView, behind: set[TensorView]) -> bool:
    """True for what depends on reductions, and what that is expanded to."""
    return tv in behind or not behind.isdisjoint(tv.producers)


def _steps(tv: Value, behind: set[TensorView]) -> dict[TensorView, float] | None:
    """How often a sum has the distance below each maximum; None for what is no such sum."""
    if not isinstance(tv, TensorView) or not _is_late(tv, behind):
        return {}
    top = _top_in_sight(tv)
    if top is not None:
        return {top: 1.0}
    match tv.definition:
        case Expr(OpDef(name="neg"), (x,)):
            return _times(_steps(x, behind), -1.0)
        case Expr(OpDef(name="add" | "sub" as name), (a, b)):
            first, second = _steps(a, behind), _steps(b, behind)
            second = _times(second, -1.0 if name == "sub" else 1.0)
            if first is None or second is None:
                return None
            return {t: first.get(t, 0.0) + second.get(t, 0.0) for t in (*first, *second)}
    return None


def _times(steps: dict[TensorView, float] | None, factor: float) -> dict[TensorView, float] | None:
    return None if steps is None else {top: factor * n for top, n in steps.items()}


def _top_in_sight(tv: TensorView) -> TensorView | None:
    """The maximum m of x where `tv` is x - m, or that where its exponential does not vanish."""
    below = in_sight(tv)
    is_exact = below.is_of("sub") and tv.dtype is DataType.Float and not is_guarded(below)
    return _top(below) if is_exact else None


def _plain_top(tv: TensorView) -> TensorView | None:
    """The maximum m of x where `tv` is x - m everywhere."""
    return _top_in_sight(tv) if tv.is_of("sub") else None


def _top(distance: TensorView) -> TensorView | None:
    """The maximum m of a row of x where a `distance` is x - m, at the elements of that row."""
    top = maximum_below(distance)
    if top is None:
        return None
    (x,) = top.expr.tensors
    return top if reads_in_place(distance, x, top, top.expr.dims()) else None


@dataclass
class Pieces:
    """The reductions along the last dim of a plane of `shape`, in pieces of `size` elements. What
    is `behind` a reduction of its rows is computed anew of each piece."""

    shape: tuple[int, ...]
    size: int
    behind: set[TensorView]
    below: Mapping[TensorView, Below]  # sums of such terms
    down: Sequence[TensorView] = ()  # reductions of the other dims
    found: dict[TensorView, TensorView] = field(default_factory=dict)
    cut: dict[TensorView, TensorView] = field(default_factory=dict)
    summed: dict[object, TensorView] = field(default_factory=dict)
    steps: dict[TensorView, TensorView] = field(default_factory=dict)

    def whole(self, tv: TensorView) -> TensorView:
        """One of the reductions, from those of its pieces."""
        if tv in self.down:
            return self._walked(tv)
        if tv not in self.found:
            below = self.below.get(tv)
            self.found[tv] = self._reduced(tv) if below is None else self._moved(below)
        return self.found[tv]

    def _reduced(self, tv: TensorView) -> TensorView:
        return reduced(tv, self._of_pieces(tv), (len(self.shape) - 1,))

    def _walked(self, tv: TensorView) -> TensorView:
        """One of the other dims, by blocks that walk the same piece of all rows."""
        (source,) = tv.expr.tensors
        terms = self._terms(widened(tv, source))
        *rows, count, size = terms.shape
        terms = reshaped(terms, [prod(rows), count, size])
        mine = call("permute", terms, dims=(1, 0, 2))
        made = produce(tv.expr.op, [mine], {"dims": (1,), WALKED: prod(rows) * count})
        return reshaped(reduced(tv, made), tv.shape)

    def _of_pieces(self, tv: TensorView) -> TensorView:
        """What `tv`, which depends on no other reduction, is of each piece."""
        (source,) = tv.expr.tensors
        key = tv.expr.op, source
        if key not in self.summed:
            terms = self._terms(widened(tv, source))
            self.summed[key] = produce(tv.expr.op, [terms], {"dims": (len(self.shape),)})
        return self.summed[key]

    def _terms(self, tv: TensorView) -> TensorView:
        """What each piece has of values of the plane, below its own maxima."""
        if tv not in self.cut:
            self.cut[tv] = self._in_pieces(tv)
        return self.cut[tv]

    def _in_pieces(self, tv: TensorView) -> TensorView:
        sizes = (*self.shape[:-1], self.shape[-1] // self.size, self.size)
        if not _is_late(tv, self.behind):
            return reshaped(expanded(tv, self.shape), sizes)
        if (top := _top(tv)) is not None:
            own = _spread(_finite(self._of_pieces(top)), sizes)
            return call("sub", self._terms(tv.expr.tensors[0]), own)
        inputs = (self._terms(v) if isinstance(v, TensorView) else v for v in tv.expr.inputs)
        return again(tv.expr, list(inputs))

    def _moved(self, below: Below) -> TensorView:
        """The sum of such terms, from the sums of pieces below their own maxima."""
        total = self._sum(*below.scaled, *_some(below.others))
        plain = self._sum(*below.scaled)
        if below.raised is not None:
            scale = call("exp", self._step(below.top))
            total, plain = (call("mul", scale, _unless(scale, t)) for t in (total, plain))
        if (moved := self._moved_by(below.steps)) is not None:
            total = call("add", total, call("mul", plain, moved))
        made = call("sum", total, dims=(len(self.shape) - 1,))
        is_any = below.raised is not None and is_guarded(below.raised)
        for top in () if is_any else below.tops:
            most = self.whole(top)
            made = call("add", made, call("sub", most, most))
        return call("neg", made) if below.is_negative else made

    def _moved_by(self, steps: Steps) -> TensorView | None:
        """What a sum of distances loses from the maxima of a piece to those of the row: a finite
        number, since what is scaled to 0 is moved by it."""
        made = None
        for top, count in steps.items():
            step = self._step(top)
            step = step if abs(count) == 1.0 else call("mul", step, sc.constant(abs(count)))
            if made is None:
                made = step if count > 0 else call("neg", step)
            else:
                made = call("add" if count > 0 else "sub", made, step)
        return None if made is None else nearest_finite(made)

    def _sum(self, *factors: TensorView) -> TensorView:
        """The sum of a product, of each piece."""
        key = op("sum"), *factors  # as of a sum of the row's itself
        if key not in self.summed:
            terms = product(map(self._terms, factors))
            self.summed[key] = call("sum", terms, dims=(len(self.shape),))
        return self.summed[key]

    def _step(self, top: TensorView) -> TensorView:
        """How far the maximum of each piece is below that of the row."""
        if top not in self.steps:
            own, most = _finite(self._of_pieces(top)), _finite(self.whole(top))
            step = call("sub", own, _spread(most, own.shape))
            self.steps[top] = nearest_finite(step)
        return self.steps[top]


def _unless(scale: TensorView, total: TensorView) -> TensorView:
    """A finite sum where the scale is 0: that of a piece far below the row's maximum may overflow,
    as one of masked scores does that are the least of numbers."""
    is_gone = call("eq", scale, sc.constant(0.0))
    return call("where", is_gone, nearest_finite(total), total)


def _some(value: TensorView | None) -> tuple[TensorView, ...]:
    return () if value is None else (value,)


def _finite(tops: TensorView) -> TensorView:
    """Maxima, and the least number in place of infinite ones."""
    return call("where", call("isinf", tops), sc.constant(-MAX_FLOAT), tops)


def _spread(of: TensorView, sizes: tuple[int, ...]) -> TensorView:
    """What there is one of for all along a last dim, for each of these."""
    kept = tuple(range(of.ndim))
    return call("broadcast_in_dim", of, shape=constants(sizes), broadcast_dims=kept)
