"""Transposes in the kept column template: what lies along the columns instead of the rows.

    T2[c, r] = T0[r, c] - T1[c]     a block keeps columns c, along which T0 is read; T2 is stored
                                    along r, from a strip that has each column's rows side by side

Such accesses are *turned*: loads fill strips before all phases, stores empty them behind the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.digits import (
    Form,
    atom,
    ceil_div,
    divmod_form,
    scale,
    substitute,
)
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule.columns import ColumnAxes, step_of

BANKS = 128  # bytes of one row of shared memory: in so many, vectors are permuted


@dataclass(frozen=True, eq=False)
class Strip:
    """`width` columns of a block, with all rows of each, that turned accesses walk by `column` of
    the plane, and along it by `piece`, a `run` of rows each."""

    axes: ColumnAxes
    width: int
    down: int  # threads that have every so many-th row
    run: int
    stride: int  # places of a column, some of them behind its rows
    column: IterDomain
    piece: IterDomain

    @property
    def lanes(self) -> int:
        """Elements of one turned access."""
        return self.run

    @property
    def elements(self) -> int:
        return self.width * self.stride

    @property
    def names(self) -> dict[IterDomain, str]:
        return {self.column: "column", self.piece: "piece"}

    def permuted(self, stored: DataType) -> int:
        """Pieces that are permuted: one row of banks, no more than the threads of a column have,
        so that the next row of a thread is `down` places on."""
        return max(min(BANKS // (self.run * stored.itemsize), self.down // self.run), 1)

    def turned(self, offset: Form) -> Form | None:
        """`offset` where a turned access begins; None for one that is not turned."""
        if not lies_along(offset, self.axes):
            return None
        vector, lane = divmod_form(atom(self.column), self.axes.lanes)
        values = {self.axes.row: scale(atom(self.piece), self.run), self.axes.vector: vector}
        if self.axes.lane is not None:
            values[self.axes.lane] = lane
        return substitute(offset, values)


def strip(axes: ColumnAxes, turned: Sequence[TensorView], across: int, down: int) -> Strip:
    """That of so many threads across and down, for accesses to `turned`."""
    rows, narrow = axes.row.size, min(tv.dtype.itemsize for tv in turned)
    run = MAX_ALIGNMENT // narrow
    while rows % run:
        run //= 2
    columns, pieces = axis(axes.vector.size * axes.lanes), axis(rows // run)
    return Strip(axes, across * axes.lanes, down, run, _stride(rows, narrow), columns, pieces)


def strip_bytes(axes: ColumnAxes, turned: Sequence[TensorView]) -> int:
    """Of the strips of what is `turned`, for each thread across."""
    places = axes.lanes * _stride(
        axes.row.size, min((tv.dtype.itemsize for tv in turned), default=1)
    )
    return places * sum(tv.dtype.itemsize for tv in turned)


def _stride(rows: int, narrow: int) -> int:
    """Places of a column, whose narrowest elements have so many bytes."""
    period = BANKS // narrow
    return ceil_div(rows, period) * period


def lies_along(offset: Form, axes: ColumnAxes) -> bool:
    """True for elements that are neighbours along the rows, and lie apart along the columns."""
    steps = [weight for weight, digit in offset.terms if digit.base is axes.row]
    rest = Form(offset.constant, tuple(t for t in offset.terms if t[1].base is not axes.row))
    if steps != [1] or axes.row in rest.bases or step_of(offset, axes) in (0, 1):
        return False
    return all(digit.is_whole for _, digit in offset.terms if digit.base is axes.row)
