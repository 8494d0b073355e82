"""The parts of reductions down the columns of a plane, of which something shorter is reduced.

Squared deviations from a mean are those of each part from its own, and those of these means from
theirs: of parts of n terms

    sum (x - mean)^2 = sum over parts of (sum (x - mean of part)^2 + n (mean of part - mean)^2)

(Chan, Golub, LeVeque: Algorithms for computing the sample variance, 1983). Terms that are left over
are parts of one term.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import OpDef, op
from thunder_fuser.ops.reductions import SQUARED_DEVIATION
from thunder_fuser.presegment.split_reductions import constants, op_of, reduced, reshaped


def has_parts(tv: TensorView) -> bool:
    """True for a reduction that what its parts come to leads to."""
    return op_of(tv).is_finished or op_of(tv) is SQUARED_DEVIATION


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
            made = apply(row, [plane], {"dims": (0,)})
            assert isinstance(made, TensorView)
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
        own = self.of(op_of(tv), source, terms, shape)
        if op_of(tv) is not SQUARED_DEVIATION:
            every = own if left is None else call("cat", own, left, dim=dim)
            return reduced(tv, every, (dim,))
        return _deviations(own, self.of(op("sum"), source, terms, shape), terms, dim, left)


def _deviations(
    own: TensorView, sums: TensorView, terms: int, dim: int, left: TensorView | None
) -> TensorView:
    """The squared deviations of parts of so many terms, of which those from their means and the
    sums are known, and of the terms that are `left`."""

    def over(values: TensorView) -> TensorView:
        return call("sum", values, dims=(dim,))

    def squared(values: TensorView) -> TensorView:
        """Their distances from the mean, squared."""
        kept = tuple(d for d in range(values.ndim) if d != dim)
        mine = call("broadcast_in_dim", mean, shape=constants(values.shape), broadcast_dims=kept)
        away = call("sub", values, mine)
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
