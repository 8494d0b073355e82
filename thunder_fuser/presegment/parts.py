"""The parts of reductions down the columns of a plane, of which something shorter is reduced.

Squared deviations from a mean are those of each part from its own, and those of these means from
theirs: of parts of n terms

    sum (x - mean)^2 = sum over parts of (sum (x - mean of part)^2 + n (mean of part - mean)^2)

(Chan, Golub, LeVeque: Algorithms for computing the sample variance, 1983). Terms that are left over
are parts of one term. Exponentials below a maximum are those of each part below its own, times that
of the maximum of the part. As many terms equal an extremum as do in the parts whose own it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import OpDef, op
from thunder_fuser.ops.reductions import EQUALS, EXPONENTIALS, SQUARED_DEVIATION
from thunder_fuser.presegment.stages import constants, reduced, reshaped

MAX_FLOAT = (2 - 2**-23) * 2.0**127  # the largest finite f32


def has_parts(tv: TensorView) -> bool:
    """True for a reduction that what its parts come to leads to."""
    return tv.expr.op.is_finished or tv.expr.op in (SQUARED_DEVIATION, EXPONENTIALS, *EQUALS)


@dataclass(frozen=True)
class Parts:
    """What was reduced down columns, by what it is of, and the planes that were: one kernel makes
    all that is needed of one."""

    found: dict[tuple[str, TensorView], TensorView]
    planes: dict[tuple[TensorView, int], TensorView]

    def of(self, row: OpDef, source: TensorView, terms: int, shape: Sequence[int]) -> TensorView:
        """What the op makes of so many terms of each of the parts, which have that shape."""
        plane = self.planes.setdefault((source, terms), reshaped(source, [terms, prod(shape)]))
        key = row.name, plane
        if key not in self.found:
            made = produce(row, [plane], {"dims": (0,)})
            self.found[key] = made
        return reshaped(self.found[key], shape)

    def whole(
        self,
        tv: TensorView,
        source: TensorView,
        terms: int,
        shape: Sequence[int],
        dim: int,
        left: TensorView | None = None,
    ) -> TensorView:
        """`tv` of its parts along `dim`, and of the terms that are `left`."""
        own = self.of(tv.expr.op, source, terms, shape)
        if tv.expr.op is SQUARED_DEVIATION:
            return _deviations(own, self.of(op("sum"), source, terms, shape), terms, dim, left)
        if tv.expr.op is EXPONENTIALS:
            return _exponentials(own, self.of(op("max"), source, terms, shape), dim, left)
        if tv.expr.op in EQUALS:
            extremum = EQUALS[tv.expr.op]
            tops = self.of(op(extremum), source, terms, shape)
            return call("cast", _equals(own, tops, extremum, dim, left), dtype=tv.dtype)
        every = own if left is None else call("cat", own, left, dim=dim)
        return reduced(tv, every, (dim,))


def _exponentials(
    own: TensorView, tops: TensorView, dim: int, left: TensorView | None
) -> TensorView:
    """The exponentials of parts, of which those below their maxima are known, the `tops`, and of
    the terms that are `left`."""
    every = tops if left is None else call("cat", tops, left, dim=dim)
    top = nearest_finite(call("max", every, dims=(dim,)))

    def below(values: TensorView) -> TensorView:
        return call("exp", call("sub", values, _along(dim, top, values)))

    total = call("sum", call("mul", own, below(nearest_finite(tops))), dims=(dim,))
    return total if left is None else call("add", total, call("sum", below(left), dims=(dim,)))


def _equals(
    own: TensorView, tops: TensorView, name: str, dim: int, left: TensorView | None
) -> TensorView:
    """How many terms of parts equal the extremum of all, of which those that equal their own, the
    `tops`, are known, and of the terms that are `left`."""
    every = tops if left is None else call("cat", tops, left, dim=dim)
    extremum = call(name, every, dims=(dim,))

    def among(values: TensorView) -> TensorView:
        return call("eq", values, _along(dim, extremum, values))

    found = call("where", among(tops), own, sc.constant(0))
    total = call("sum", found, dims=(dim,))
    return total if left is None else call("add", total, call("sum", among(left), dims=(dim,)))


def nearest_finite(values: TensorView) -> TensorView:
    """The nearest finite numbers."""
    most = sc.constant(MAX_FLOAT)
    return call("minimum", call("maximum", values, sc.constant(-MAX_FLOAT)), most)


def _along(dim: int, of: TensorView, values: TensorView) -> TensorView:
    """What columns have one of, for each of their `values` along `dim`."""
    kept = tuple(d for d in range(values.ndim) if d != dim)
    shape = constants(values.shape)
    return call("broadcast_in_dim", of, shape=shape, broadcast_dims=kept)


def _deviations(
    own: TensorView, sums: TensorView, terms: int, dim: int, left: TensorView | None
) -> TensorView:
    """The squared deviations of parts of so many terms, of which those from their means and the
    sums are known, and of the terms that are `left`."""

    def over(values: TensorView) -> TensorView:
        return call("sum", values, dims=(dim,))

    def squared(values: TensorView) -> TensorView:
        """Their distances from the mean, squared."""
        away = call("sub", values, _along(dim, mean, values))
        return call("mul", away, away)

    count, means = sc.constant(float(terms)), call("truediv", sums, sc.constant(float(terms)))
    total, parts = over(means), float(own.shape[dim])
    if left is None:
        mean = call("truediv", total, sc.constant(parts))
        return call("add", over(own), call("mul", over(squared(means)), count))
    every = call("add", over(sums), over(left))
    mean = call("truediv", every, sc.constant(parts * terms + left.shape[dim]))
    within = call("add", over(own), over(squared(left)))
    return call("add", within, call("mul", over(squared(means)), count))
