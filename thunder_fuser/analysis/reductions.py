"""What kind of reduction a tensor is: short, along rows, down columns, or of groups that an index
makes; or a scan of rows; or nothing that a kernel computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import groupby
from math import prod
from typing import NamedTuple

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family

MAX_SHORT_REDUCTION = 32  # terms that one thread combines in registers
MAX_REPEATED = 8  # terms that every element that needs their result may combine anew
WALKED = "walked"  # the attribute of a reduction that a block walks, however few terms it has: the
# rows of the plane, which may be fewer than those dealt out
SIDES = "sides"  # the attribute of a walked reduction of whose results a block has so many rows
MET = "met"  # the attribute of a reduction of so many rows' values that meet in the block which has
# these rows
PACKED = "packed"  # the attribute of a reduction down packs of rows, behind the last of which rows
# were added: the elements of the plane
PIECES = "pieces"  # the attribute of a reduction along pieces of rows, beside which columns of the
# plane may be reduced: the elements of a row
CHAINED = "chained"  # the attribute of a scan of rows that are too few: blocks share each, as they
# do a column
MAX_SCANNED = 16384  # elements of a row that a block keeps while it scans them
COUNTED = 1 << 31  # truths, of fewer of which a word holds the number
MIN_SHARED = 65536  # elements of a row from which on blocks have a piece each, where rows are few


class Run(NamedTuple):
    """Neighbouring axes of a tensor before it is reduced, which all are or none is."""

    size: int
    is_reduced: bool


def runs_of(tv: TensorView) -> tuple[Run, ...]:
    """The axes of more than one element that `tv` has or reduces, outermost first: kept and reduced
    ones by turns."""
    sizable = (a for a in tv.domain.logical if a.size != 1)
    runs = groupby(sizable, lambda a: a.is_reduction)
    return tuple(Run(prod(a.size for a in axes), is_reduced) for is_reduced, axes in runs)


def is_reduction(tv: TensorView) -> bool:
    """True for a reduction of any number of terms."""
    return tv.family is Family.REDUCTION


def is_scan(tv: TensorView) -> bool:
    """True for a running sum that has elements."""
    return tv.family is Family.SCAN and 0 not in tv.shape


def is_grouped(tv: TensorView) -> bool:
    """True for a sum of what an index sends to one place that has elements."""
    return tv.family in (Family.GROUPED, Family.PICKED) and 0 not in tv.shape


def is_picked(tv: TensorView) -> bool:
    """True for such a sum of elements of a row, each of which has an index."""
    return tv.family is Family.PICKED and 0 not in tv.shape


def is_ordering(tv: TensorView) -> bool:
    """True for what puts an index in order."""
    return tv.family in (Family.ORDER, Family.STAGE)


def is_stage(tv: TensorView) -> bool:
    """True for what puts an index in order by one digit: it is in memory before others read it."""
    return tv.family is Family.STAGE


def made_by(tv: TensorView) -> TensorView:
    """Of what puts an index in order by one digit: the counts, its second operand, which all that
    the same launch makes have in common. Of others `tv` itself."""
    operands = tv.expr.tensors
    return operands[1] if is_stage(tv) and len(operands) > 1 else tv


def is_walked(tv: TensorView) -> bool:
    """True for a scan of rows that are too long for a block to keep."""
    return is_scan(tv) and (row_shape(tv) or (0, 0))[1] > MAX_SCANNED


def is_long(tv: TensorView) -> bool:
    """True for a reduction of more terms than one thread combines in registers, or that walks a
    plane, and for any scan, sum of groups and order of an index. A reduction without results
    combines nothing, and one of rows that meet a value of each thread."""
    if is_scan(tv) or is_grouped(tv) or is_ordering(tv):
        return True
    if not is_reduction(tv) or 0 in tv.shape:
        return False
    if met_rows(tv) is not None:
        return False
    if walked_rows(tv) is not None:
        return True
    return prod(a.size for a in tv.domain.logical if a.is_reduction) > MAX_SHORT_REDUCTION


def row_shape(tv: TensorView) -> tuple[int, int] | None:
    """(rows, columns) of a reduction or scan along the innermost axis of its operand; None for any
    other."""
    if is_scan(tv):
        return _scan_shape(tv)
    if is_grouped(tv):
        return None
    runs = runs_of(tv)
    if not runs or not runs[-1].is_reduced:
        return None
    terms, results = terms_and_results(tv)
    return results, terms


def _scan_shape(tv: TensorView) -> tuple[int, int] | None:
    dim = scanned_dim(tv)
    if prod(tv.shape[dim + 1 :]) != 1 or _mark(tv, CHAINED) is not None:
        return None
    return prod(tv.shape[:dim]), tv.shape[dim]


def is_count(tv: TensorView) -> bool:
    """True for a count of truths, of which a word holds what it comes to."""
    if tv.dtype is not DataType.Int or tv.definition is None or tv.definition.op.name != "sum":
        return False
    (terms,) = tv.definition.tensors
    few, made = prod(terms.shape) < COUNTED, terms.definition
    while few and made is not None and made.op.name in ("cast", "slice", "reshape"):
        (terms,) = made.tensors
        made = terms.definition
    return few and terms.dtype is DataType.Bool


def combined_type(tv: TensorView) -> DataType:
    """The type in which threads of rows and columns combine the terms of a reduction."""
    return DataType.Int32 if is_count(tv) else tv.dtype.compute_type


def terms_type(tv: TensorView) -> DataType:
    """The type in which a reduction takes its terms: of one that knows more of them than its
    result, such as how many equal the largest, their own."""
    row = tv.expr.op
    return combined_type(tv) if row.is_finished else terms_of(tv).dtype.compute_type


def state_bytes(tv: TensorView) -> int:
    """Bytes of what a thread knows of one result of a reduction."""
    return tv.dtype.compute_type.itemsize * tv.expr.op.state_size


def is_scattered(tv: TensorView) -> bool:
    """True for a long reduction along rows that are no stretch of axes: kept axes lie between its
    reduced ones, as the channels of a batch norm."""
    return is_along(tv) and len(runs_of(tv)) > 2


def is_outermost(tv: TensorView) -> bool:
    """True for a reduction over the outermost axis among others: the first parts of all its rows
    lie before the second ones."""
    return is_scattered(tv) and runs_of(tv)[0].is_reduced


def stretch_of(tv: TensorView) -> int:
    """Neighbouring elements of a row: all of them, but for a reduction over scattered axes."""
    if is_scan(tv):
        return (row_shape(tv) or (0, 0))[1]
    runs = runs_of(tv)
    return runs[-1].size if runs and runs[-1].is_reduced else 1


def _column_scan_shape(tv: TensorView) -> tuple[int, int]:
    terms = tv.shape[scanned_dim(tv)]
    return terms, prod(tv.shape) // terms


def scanned_dim(tv: TensorView) -> int:
    """The dim along which a scan runs."""
    return tv.expr.dim


def is_few_and_long(tv: TensorView, multiprocessors: int) -> bool:
    """True for a reduction of rows that are too few to fill the machine, and long enough for blocks
    to share them: nothing of such a row stays in one place until the result is known."""
    if is_scan(tv) or not is_long(tv):
        return False
    rows, columns = row_shape(tv) or (0, 0)
    return rows < multiprocessors and columns >= MIN_SHARED


def terms_of(reduction: TensorView) -> TensorView:
    """What a reduction, or an order, is of."""
    return reduction.expr.tensors[0]


def is_long_reduction(tv: TensorView) -> bool:
    """True for a long one that is no scan, sum of groups or order."""
    return is_reduction(tv) and is_long(tv)


def terms_and_results(tv: TensorView) -> tuple[int, int]:
    """Terms of each result of a reduction, and how many these are."""
    return prod(a.size for a in tv.domain.logical if a.is_reduction), prod(tv.shape)


def column_shape(tv: TensorView) -> tuple[int, int] | None:
    """(terms, columns) of a reduction whose innermost axis is kept, or of a scan along another axis
    than the innermost, or of rows that blocks share; None for any other."""
    if is_grouped(tv) or is_ordering(tv):
        return None
    if is_scan(tv):
        return None if _scan_shape(tv) is not None else _column_scan_shape(tv)
    runs = runs_of(tv)
    if not runs or runs[-1].is_reduced or not is_long(tv):
        return None
    return terms_and_results(tv)


def is_along(tv: TensorView) -> bool:
    """True for a long reduction along rows, but for scans."""
    return is_long(tv) and not is_scan(tv) and row_shape(tv) is not None


def is_down(tv: TensorView) -> bool:
    """True for a long reduction down columns, but for scans."""
    return is_long(tv) and not is_scan(tv) and column_shape(tv) is not None


def is_summed(tv: TensorView) -> bool:
    """True for a long reduction down columns whose parts combine as its terms do."""
    return is_down(tv) and tv.expr.op.is_finished


def plane_of(tv: TensorView) -> tuple[int, int] | None:
    """(rows, columns) of the plane that a long reduction walks: what is summed down the columns of
    a part of the rows walks the same plane as what is summed along them. A sum of groups walks
    none."""
    along = row_shape(tv)
    if along is not None:
        return along
    down = column_shape(tv)
    if down is None:
        return None
    if is_scan(tv):
        columns = prod(tv.shape[scanned_dim(tv) + 1 :])
        return down[0] * down[1] // columns, columns
    columns = runs_of(tv)[-1].size
    return walked_rows(tv) or down[0] * down[1] // columns, columns


def plane_beside(tv: TensorView) -> tuple[int, int] | None:
    """The plane whose columns a kernel may reduce beside a long reduction: that which it walks, and
    of pieces of rows that of the rows."""
    plane, columns = plane_of(tv), row_of_pieces(tv)
    return plane if plane is None or columns is None else (prod(plane) // columns, columns)


def needed_by_rows(
    along: Iterable[TensorView],
) -> dict[tuple[int, int] | None, set[TensorView]]:
    """What reductions along rows need, by the planes of these rows: none of it is a sum beside
    them."""
    planes: dict[tuple[int, int] | None, list[TensorView]] = {}
    for tv in along:
        planes.setdefault(plane_of(tv), []).append(tv)
    return {plane: set(topological(found)) for plane, found in planes.items()}


def stored_planes(
    fusion: Fusion, shape_of: Callable[[TensorView], tuple[int, int] | None]
) -> set[tuple[int, int]]:
    """The planes, of long reductions of such shapes, of which something that follows from them is
    stored."""
    below: dict[TensorView, frozenset[tuple[int, int]]] = {}
    for tv in fusion.tensors:
        found = frozenset[tuple[int, int]]().union(*(below[source] for source in tv.producers))
        plane = shape_of(tv) if is_long(tv) else None
        below[tv] = found if plane is None else found | {plane}
    return {plane for tv in fusion.roots for plane in below[tv] if prod(tv.shape) == prod(plane)}


def inputs_of_size(fusion: Fusion, elements: int) -> list[TensorView]:
    """The tensors of so many elements that `fusion` is given."""
    given = (tv for tv in fusion.inputs if isinstance(tv, TensorView))
    return [tv for tv in given if prod(tv.shape) == elements]


def walked_rows(tv: TensorView) -> int | None:
    """Of the plane that a reduction walks which is marked, else None."""
    return _mark(tv, WALKED)


def sides_of(tv: TensorView) -> int | None:
    """Rows of a block's results that are summed side by side, where a reduction is marked so."""
    return _mark(tv, SIDES)


def met_rows(tv: TensorView) -> int | None:
    """How many rows of a block meet in a reduction that is marked so: neighbours, of each of which
    it has one term."""
    return _mark(tv, MET)


def _mark(tv: TensorView, name: str) -> int | None:
    attrs = {} if tv.definition is None else dict(tv.definition.attrs)
    value = attrs.get(name)
    assert value is None or isinstance(value, int)
    return value


def row_of_pieces(tv: TensorView) -> int | None:
    """Elements of the rows whose pieces a marked reduction is along."""
    return _mark(tv, PIECES)


def packed_elements(tv: TensorView) -> int | None:
    """Of the plane whose packs of rows a marked reduction walks, of which the last has fewer."""
    return _mark(tv, PACKED)


def mark_of(tv: TensorView) -> dict[str, int]:
    """The attributes that mark a reduction, for another one that takes its place."""
    marks = {name: _mark(tv, name) for name in (WALKED, SIDES, MET, PACKED, PIECES)}
    return {name: value for name, value in marks.items() if value is not None}
