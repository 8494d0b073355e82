"""Sum exponentials below the maxima of rows and of columns of one plane in one read of it.

    T1 = max(T0, dims=[1]);  T2 = sum(exp(sub(T0, T1)), dims=[1])
    T3 = max(T0, dims=[0]);  T4 = sum(exp(sub(T0, T3)), dims=[0])
        =>   T5: f32[i8192, i32, i256] = reshape(T0: f32[i8192, i8192])
             T6 = max(T5, dims=[2]);  T7 = exponentials(T5, dims=[2])
             T1 = max(T6, dims=[1]);  T2 = sum(mul(exp(sub(T6, T1)), T7), dims=[1])
             T4 = add(exponentials(T0, dims=[0]), sub(T3, T3))

The two halves of a contrastive loss. A warp of the column template has a piece of a row in its
lanes (`schedule/row_pieces.py`), so T3, the exponentials of columns, T6 and T7 are one launch. What
pieces come to, two numbers for 256 elements, is combined by what reads it. A piece of nothing but
-inf sums to 0, and below an infinite maximum there is no number, as inf - inf is none.

A plane of other columns than pieces fill is padded by -inf. Where the columns are of what was
rounded to 16 bits, and the rows of what was not, both are of the latter. Only planes of which
nothing else is reduced. Not with `strict`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from thunder_fuser.analysis.access import reads_in_place
from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.analysis.precision import distance_from_max, is_guarded
from thunder_fuser.analysis.reductions import (
    MAX_SHORT_REDUCTION,
    PIECES,
    inputs_of_size,
    is_long,
    is_reduction,
    terms_of,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import lying, rewrite
from thunder_fuser.ir.tensor import Attr, Expr, TensorView, Value
from thunder_fuser.ops import OpDef
from thunder_fuser.ops.reductions import EXPONENTIALS
from thunder_fuser.presegment.stages import constants, expanded, part, reduced, reshaped
from thunder_fuser.target import WARP

MIN_ROWS = 1024  # below which a block keeps columns
MIN_COLUMNS = 1024  # of pieces, of which the last one may be a part
MIN_ELEMENTS = 1 << 22  # of a plane, below which launches take longer than reads


@dataclass(frozen=True)
class Both:
    """The maximum and the sum below it of the rows, and of the columns, of the plane `x`, in pieces
    of so many elements of a row."""

    x: TensorView
    rows: tuple[TensorView, TensorView]
    columns: tuple[TensorView, TensorView]
    piece: int

    def made(self) -> dict[TensorView, TensorView]:
        """What takes the place of each of the four, and of the plane that columns are of."""
        x = self._padded()
        count, columns = x.shape
        pieces = reshaped(x, (count, ceil_div(columns, self.piece), self.piece))
        attrs: dict[str, Attr] = {"dims": (2,), PIECES: columns}
        tops, sums = (
            self._lying(produce(row, [pieces], attrs))
            for row in (self.rows[0].expr.op, EXPONENTIALS)
        )
        top = reduced(self.rows[0], tops, (1,))
        below = call("sub", tops, expanded(reshaped(top, (count, 1)), tops.shape))
        total = reduced(self.rows[1], call("mul", call("exp", below), sums), (1,))
        highest, down = (
            self._cut(produce(row, [x], {"dims": (0,)}))
            for row in (self.columns[0].expr.op, EXPONENTIALS)
        )
        down = call("add", down, call("sub", highest, highest))
        found = zip((*self.rows, *self.columns), (top, total, highest, down), strict=True)
        return {terms_of(self.columns[0]): self.x, **dict(found)}

    def _padded(self) -> TensorView:
        """The plane with as many more columns as fill a piece, of what changes no sum of a row."""
        rest = -self.x.shape[1] % self.piece
        lowest, widths = sc.constant(float("-inf")), constants((0, rest, 0, 0))
        return call("pad", self.x, lowest, pad_widths=widths) if rest else self.x

    def _cut(self, tv: TensorView) -> TensorView:
        """What the columns of the plane come to, of those and what it is padded by."""
        columns = self.x.shape[1]
        is_same = tv.shape == (columns,)
        return tv if is_same else part(call("segment_set", tv), 0, 0, columns)

    def _lying(self, tv: TensorView) -> TensorView:
        """What pieces come to in the order in which it is read: one piece of all rows after
        another, where a thread has those of a row."""
        return lying(tv, (1, 0)) if tv.shape[1] <= MAX_SHORT_REDUCTION else tv


def both_ways(fusion: Fusion) -> Fusion:
    """`fusion` with such sums in one read."""
    planes = defaultdict[tuple[int, ...], list[TensorView]](list)
    for tv in fusion.tensors:
        if is_reduction(tv) and is_long(tv) and terms_of(tv).ndim == 2:
            planes[terms_of(tv).shape].append(tv)
    made = dict[TensorView, TensorView]()
    for shape, reductions in planes.items():
        piece = _piece(fusion, shape)
        both = None if piece is None else _both(reductions, piece)
        made |= {} if both is None else both.made()

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        return made.get(tv)

    return rewrite(fusion, rule) if made else fusion


def _piece(fusion: Fusion, shape: tuple[int, ...]) -> int | None:
    """The elements of a row that a warp has of a plane of that shape, a vector a lane; None for a
    small one."""
    rows, columns = shape
    read = inputs_of_size(fusion, prod(shape))
    is_large = rows >= MIN_ROWS and columns >= MIN_COLUMNS and prod(shape) >= MIN_ELEMENTS
    if not read or not is_large:
        return None
    lanes = MAX_ALIGNMENT // min(tv.dtype.itemsize for tv in read)
    return lanes * WARP


def _both(reductions: Sequence[TensorView], piece: int) -> Both | None:
    """The reductions of a plane, if they are these four."""
    found = [pair for dim in (1, 0) if (pair := _pair(reductions, dim)) is not None]
    if len(reductions) != 4 or len(found) != 2:
        return None
    rows, columns = found
    x = terms_of(rows[0])
    before = set(topological([x, terms_of(columns[0])]))
    is_same = before.isdisjoint(reductions) and _are_alike(x, terms_of(columns[0]))
    return Both(x, rows, columns, piece) if is_same else None


def _pair(reductions: Sequence[TensorView], dim: int) -> tuple[TensorView, TensorView] | None:
    """The maximum over a dim, and the sum of the exponentials below it, of 32-bit floats."""
    along = [tv for tv in reductions if tv.expr.dims() == (dim,)]
    sums = [tv for tv in along if tv.is_of("sum") and tv.dtype is DataType.Float]
    tops = [tv for tv in along if tv.is_of("max") and tv.dtype is DataType.Float]
    if len(sums) != 1 or len(tops) != 1:
        return None
    (total,), (top,), term = sums, tops, terms_of(sums[0])
    is_below = distance_from_max(term) is top and not is_guarded(term)
    is_own = is_below and reads_in_place(term, terms_of(top), top, (dim,))
    return (top, total) if is_own else None


def _are_alike(a: Value, b: Value) -> bool:
    """True for one value, or two that are computed alike but for roundings of `b` in between."""
    b = _wide(b)
    if a is b or a == b:
        return True
    if not (isinstance(a, TensorView) and isinstance(b, TensorView)):
        return False
    if a.definition is None or b.definition is None:
        return False
    first, second = a.expr, b.expr
    is_same = first.op is second.op and first.attrs == second.attrs and a.dtype is b.dtype
    pairs = zip(first.inputs, second.inputs, strict=True)
    return is_same and all(_are_alike(x, y) for x, y in pairs)


def _wide(value: Value) -> Value:
    """What was rounded to 16 bits, if anything, to become that value."""
    match value:
        case TensorView(definition=Expr(OpDef(name="cast"), (TensorView() as middle,))):
            match middle.definition:
                case Expr(OpDef(name="cast"), (TensorView() as wide,)) if wide.dtype is value.dtype:
                    return _wide(wide) if middle.dtype.is_floating else value
    return value
