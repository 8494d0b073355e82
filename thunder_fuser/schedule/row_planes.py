"""What a segment has of the size of a plane, and how that lies in rows of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import gcd, prod

from thunder_fuser.analysis.digits import (
    atom,
)
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, dense_strides
from thunder_fuser.analysis.met_rows import WIDTH as MET_WIDTH
from thunder_fuser.analysis.reductions import (
    is_long,
    is_reduction,
    is_scan,
    row_shape,
    runs_of,
    stretch_of,
)
from thunder_fuser.ir.fusion import following, topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family
from thunder_fuser.schedule.needs import needs_of
from thunder_fuser.segment.segment import Segment


@dataclass(frozen=True)
class Plane:
    """What a segment reads and stores of the size of a plane, and the tables whose rows are as
    long; as many elements of them are aligned as a plane has `lanes`. Where it reads none of them,
    vectors are those of what it reads a part of."""

    elements: int
    columns: int
    tensors: tuple[TensorView, ...]
    tables: tuple[TensorView, ...]
    lanes: int


def plane_of(segment: Segment, shape: tuple[int, int]) -> Plane:
    rows, columns = shape
    plane = [tv for tv in segment.inputs if prod(tv.shape) == rows * columns]
    tables = [tv for tv in _tables(segment, columns) if tv not in plane]
    read = [*plane, *tables] or [tv for tv in segment.inputs if prod(tv.shape) > rows * columns]
    plane += [s.target for s in segment.stores if prod(s.target.shape) == rows * columns]
    width = MET_WIDTH if segment.met else MAX_ALIGNMENT
    lanes = width // max(min((tv.dtype.itemsize for tv in read), default=4), 1)
    aligned = [segment.layouts[tv].alignment // tv.dtype.itemsize for tv in (*plane, *tables)]
    if any(_sums_neighbours(tv, rows * columns) for tv in segment.tensors):
        lanes = 1  # whose elements are a vector
    lanes = max(min([lanes, *aligned]), 1)
    lanes = gcd(lanes, *_stretches_summed(segment, rows * columns))
    return Plane(rows * columns, columns, tuple(plane), tuple(tables), lanes)


def can_shift(segment: Segment, plane: Plane, long: Sequence[TensorView]) -> bool:
    """True where everything of the plane's size lies row after row, in dims that rows divide."""
    return (
        not plane.tables
        and _lies_in_rows(segment, plane, long)
        and all(_is_in_stretches(tv, plane.columns) for tv in long)
        and all(
            _has_rows(tv.shape, plane.columns)
            and segment.layouts[tv].strides == dense_strides(tv.shape)
            and segment.layouts[tv].alignment == MAX_ALIGNMENT
            for tv in plane.tensors
        )
    )


def _lies_in_rows(segment: Segment, plane: Plane, long: Sequence[TensorView]) -> bool:
    """True where what follows from what rows come to lies in the same rows, one element for each of
    theirs. Vectors reach beside a row, and a place there must not be one of another row: as where
    channels are numbered anew behind their groups', or rows are rolled."""
    behind = (tv for tv in following(long, segment.made) if prod(tv.shape) == plane.elements)
    return all(prod(s.value.shape) <= plane.elements for s in segment.stores) and all(
        _ends_in_rows(tv.shape, plane.columns) and tv.family is not Family.CAT for tv in behind
    )


def _sums_neighbours(tv: TensorView, elements: int) -> bool:
    """True for a short reduction of neighbours in a larger plane, for each of so many elements."""
    if not is_reduction(tv) or is_long(tv):
        return False
    return prod(tv.shape) == elements and row_shape(tv) is not None


def _stretches_summed(segment: Segment, elements: int) -> list[int]:
    """Neighbours of which short reductions down rows of a larger plane, for each of so many
    elements, read neighbours: elements behind them are those of other rows."""
    short = (tv for tv in segment.tensors if is_reduction(tv) and not is_long(tv))
    runs = (runs_of(tv) for tv in short if prod(tv.shape) == elements)
    return [own[-1].size for own in runs if len(own) > 2 and not own[-1].is_reduced]


def weights_of(segment: Segment, shape: tuple[int, int]) -> int:
    """How many inputs have rows of as many columns as the plane of `shape`, and fewer of them, such
    as weights or a bias of attention scores: they begin in other lanes than its rows. Not what each
    row has one of, as the maxima of square scores."""
    rows, columns = shape
    found = [tv for tv in segment.inputs if _ends_in_rows(tv.shape, columns)]
    sizes = {tv: prod(tv.shape) for tv in found if prod(tv.shape) < rows * columns}
    unsure = {tv for tv, size in sizes.items() if size == rows}
    return len(sizes) - len(unsure and unsure - _read_along_rows(segment, rows * columns))


def _read_along_rows(segment: Segment, elements: int) -> set[TensorView]:
    """The inputs of which neighbours in a plane of so many elements need neighbours."""
    long = segment.long
    needed = [s.value for s in segment.stores]
    needed += [tv for made in long for tv in made.expr.tensors]
    planes = [tv for tv in dict.fromkeys(needed) if prod(tv.shape) == elements]
    results = [(tv, tuple(map(atom, tv.logical))) for tv in planes]
    innermost = {next(a for a in reversed(tv.logical) if a.size != 1) for tv in planes}
    read = needs_of(segment, long, results).leaves
    return {tv for tv, index in read if any(form.bases & innermost for form in index)}


def _has_rows(shape: Sequence[int], columns: int) -> bool:
    """True where a row is whole dims, or these and a part of the one before."""
    sizes = [prod(shape[k:]) for k in range(len(shape) + 1)]
    return any(outer % columns == 0 and columns % inner == 0 for outer, inner in pairwise(sizes))


def _ends_in_rows(shape: Sequence[int], columns: int) -> bool:
    """True where the last dims have so many elements."""
    return any(prod(shape[k:]) == columns for k in range(len(shape)))


def _is_in_stretches(tv: TensorView, columns: int) -> bool:
    """True for a reduction or a scan along a row of neighbours, or down such rows."""
    if is_scan(tv):
        return True
    if row_shape(tv) is None:
        return tv.shape[-1:] == (columns,)
    return stretch_of(tv) == columns


def _tables(segment: Segment, columns: int) -> list[TensorView]:
    """The inputs whose rows are chosen by indices, not an element of each as of a loss."""
    gathered = [
        tv.definition.tensors[0]
        for tv in segment.tensors
        if tv not in segment.leaves
        and tv.definition is not None
        and tv.definition.op.family is Family.GATHER
        and tv.shape[-1:] == (columns,)
    ]
    found = (tv for tv in topological(gathered, segment.leaves) if tv in segment.leaves)
    return [tv for tv in found if tv.shape[-1:] == (columns,)]
