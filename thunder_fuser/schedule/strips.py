"""Transposes in the kept column template: what lies along the columns instead of the rows.

    T2[c, r] = T0[r, c] - T1[c]     a block keeps columns c, along which T0 is read; T2 is stored
                                    along r, from a strip that has each column's rows side by side

Such accesses are *turned*: loads fill strips before all phases, stores empty them behind the last.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

from thunder_fuser.analysis.digits import (
    Form,
    add,
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
from thunder_fuser.schedule.column_axes import ColumnAxes
from thunder_fuser.schedule.columns import step_of
from thunder_fuser.target import BANK, BANKS, WARP

ALL_BANKS = BANKS * BANK  # bytes of one row of shared memory


@dataclass(frozen=True, eq=False)
class Strip:
    """All rows of the columns of a block, that turned accesses walk by `column` of the plane, and
    along it by `piece`, a `run` of rows each. Columns of the same lane are side by side, so that
    neither the threads of a warp, which are at a few rows of one lane, nor those that move the
    pieces of a column or a few meet a bank of shared memory often."""

    axes: ColumnAxes
    across: int  # vectors of columns
    down: int  # threads that have every so many-th row
    run: int
    stride: int  # places of a column, some of them behind its rows
    apart: int  # columns from those of one lane to the next lane's
    column: IterDomain
    piece: IterDomain

    @property
    def left(self) -> int:
        """Elements behind the last run, which are moved one by one."""
        return 0

    @property
    def width(self) -> int:
        """Columns of a block."""
        return self.across * self.axes.lanes

    @property
    def moved(self) -> tuple[int, int, int]:
        """Places of a column, lanes, and columns from one lane to the next, for what moves runs."""
        return self.stride, self.axes.lanes, self.apart

    @property
    def vector_step(self) -> int:
        """Places from a vector of columns to the next one."""
        return self.stride

    @property
    def lane_step(self) -> int:
        """Places from a lane of a vector to the next one."""
        return self.stride * self.apart

    @property
    def places(self) -> int:
        return self.axes.lanes * self.lane_step

    def bytes_of(self, stored: DataType) -> int:
        """Bytes of the strip of such elements, behind which another one is aligned."""
        return ceil_div(self.places * stored.itemsize, MAX_ALIGNMENT) * MAX_ALIGNMENT

    @property
    def names(self) -> dict[IterDomain, str]:
        return {self.column: "column", self.piece: "piece"}

    def turned(self, offset: Form) -> Form | None:
        """`offset` where a turned access begins; None for one that is not turned."""
        if not lies_along(offset, self.axes):
            return None
        vector, lane = divmod_form(atom(self.column), self.axes.lanes)
        values = {self.axes.row: scale(atom(self.piece), self.run), self.axes.vector: vector}
        if self.axes.lane is not None:
            values[self.axes.lane] = lane
        return substitute(offset, values)


class FlatStrip(Strip):
    """A copy of columns that follow each other in memory, and are as good as far apart as they are
    long. A `column` is a run of elements, whatever columns these are of, and has one piece."""

    @property
    def left(self) -> int:
        return _elements(self.axes) - self.column.size * self.run

    @property
    def width(self) -> int:
        return self.places // self.run

    @property
    def moved(self) -> tuple[int, int, int]:
        return self.run, 1, 1

    @property
    def vector_step(self) -> int:
        return self.stride * self.axes.lanes

    @property
    def lane_step(self) -> int:
        return self.stride

    @property
    def places(self) -> int:
        return self.across * self.vector_step

    def turned(self, offset: Form) -> Form | None:
        return scale(atom(self.column), self.run) if lies_along(offset, self.axes) else None


@dataclass(frozen=True)
class Turned:
    """What is turned: tensors whose columns follow each other in memory or, where not `is_dense`,
    lie in any way."""

    tensors: tuple[TensorView, ...]
    is_dense: bool

    @staticmethod
    def of(accesses: Sequence[tuple[TensorView, Form]], axes: ColumnAxes) -> Turned:
        dense = add(scale(axes.column, axes.row.size), atom(axes.row))
        is_dense = all(offset == dense for _, offset in accesses)
        return Turned(tuple(tv for tv, _ in accesses), is_dense)


def strip(axes: ColumnAxes, turned: Turned, across: int, down: int) -> Strip:
    """That of so many threads across and down: a copy of the columns where that is moved in longer
    runs, and no more than two threads meet a bank."""
    narrow = min(tv.dtype.itemsize for tv in turned.tensors)
    own = max(ALL_BANKS // min(across, WARP), narrow)  # bytes of banks of each column of a warp
    padded = _padded(axes, across, down, own, narrow)
    if not turned.is_dense or gcd(axes.lanes * axes.row.size * narrow, ALL_BANKS) > 2 * own:
        return padded
    flat = _flat(axes, across, down, narrow)
    return flat if flat.run > padded.run else padded


def _flat(axes: ColumnAxes, across: int, down: int, narrow: int) -> FlatStrip:
    rows = axes.row.size
    run = gcd(across * axes.lanes * rows, MAX_ALIGNMENT // narrow)
    columns = axis(_elements(axes) // run)
    return FlatStrip(axes, across, down, run, rows, across, columns, axis(1))


def _elements(axes: ColumnAxes) -> int:
    """Of the plane."""
    return axes.vector.size * axes.lanes * axes.row.size


def _padded(axes: ColumnAxes, across: int, down: int, own: int, narrow: int) -> Strip:
    rows, unit = axes.row.size, own // narrow
    run = gcd(rows, min(own, MAX_ALIGNMENT) // narrow)
    stride = (ceil_div(rows, unit) | 1) * unit
    is_short = rows * narrow < ALL_BANKS  # pieces of several columns are moved at a time
    apart = across + 1 if is_short and axes.lanes > 1 else across
    columns, pieces = axis(axes.vector.size * axes.lanes), axis(rows // run)
    return Strip(axes, across, down, run, stride, apart, columns, pieces)


def strip_bytes(axes: ColumnAxes, turned: Turned, across: int) -> int:
    """Of the strips of what is `turned`."""
    if not turned.tensors:
        return 0
    found = strip(axes, turned, across, 1)
    return sum(found.bytes_of(tv.dtype) for tv in turned.tensors)


def lies_along(offset: Form, axes: ColumnAxes) -> bool:
    """True for elements that are neighbours along the rows, and lie apart along the columns."""
    steps = [weight for weight, digit in offset.terms if digit.base is axes.row]
    rest = Form(offset.constant, tuple(t for t in offset.terms if t[1].base is not axes.row))
    if steps != [1] or axes.row in rest.bases or step_of(offset, axes) in (0, 1):
        return False
    return all(digit.is_whole for _, digit in offset.terms if digit.base is axes.row)
