"""Split sums over all columns of a plane whose columns are reduced too, and kept for that.

    T1: f32[i64, i3136] = sum(T0: f32[i64, i256, i3136], dims=[1]);  T9 = sum(T0, dims=[0, 2])
        =>   T2: f32[i64, i3136, i256] = permute(T0);  T1 = sum(T2, dims=[2])
             T3: f32[i4, i784, i64, i256] = reshape(T2);  T4: f32[i784, i4, i64, i256] = permute(T3)
             T5: f32[i784, i256] = sum(T4, dims=[1, 2]);  T9 = sum(T5, dims=[0])

A layer norm over channels, or of rows that lie side by side in memory as those of
`permute(T0, dims=[0, 2, 1])`. The kept column template sums a part per block while it walks columns
(`schedule/beside_columns.py`), so that the plane is read once; the parts are summed behind it, in a
fixed order. Blocks walk side by side: with a stretch of columns each they are at more places of
memory at a time than the L2 cache keeps lines of. Rows that lie row after row are
`split_reductions.py`'s.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import gcd, prod

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.analysis.reductions import is_long, is_scan, mark_of
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.split_reductions import Deal, constants, in_two

BLOCKS = 2  # that walk on a multiprocessor
MOST = 8  # groups of a multiprocessor: their parts are read again
ACROSS = 8  # vectors of columns that a block has at a time, at most, if that is of all rows
HELD = 2048  # vectors in all
SECTOR = 32  # bytes of a row that it has at least
MAX_ROW = 4096  # bytes that are read of a row of the trace, a column of memory, and kept
MIN_WALKED = 192 * 1024  # bytes read of a plane, per multiprocessor: fewer are in the cache


def walk_columns(fusion: Fusion, multiprocessors: int) -> Fusion:
    """`fusion` with such sums in two stages. Inputs stay the same tensors."""
    planes: dict[tuple[int, ...], int] = {}
    for tv in fusion.tensors:
        dim = _reduced_dim(tv)
        if dim is not None:
            planes.setdefault(_operand(tv).shape, dim)
    along = [tv for tv in fusion.tensors if _is_along(tv, planes)]
    ahead = set(topological([_operand(tv) for tv in along]))
    sums = [tv for tv in fusion.tensors if _is_reduction(tv) and tv not in {*ahead, *along}]
    groups: dict[tuple[int, ...], tuple[int, int]] = {}
    for plane, dim in planes.items():
        beside = [tv for tv in sums if _operand(tv).shape == plane]
        if not _needed_whole(fusion, plane).isdisjoint(beside):
            continue  # they are of rows, and what is kept for them of columns
        count = _groups(fusion, plane, dim, beside, multiprocessors)
        if count is not None:
            groups[plane] = count

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if not _is_reduction(tv) or _operand(tv).shape not in groups:
            return None
        plane = _operand(tv).shape
        dim = planes[plane]
        assert isinstance(inputs[0], TensorView)
        if _is_along(tv, planes) and dim != len(plane) - 1:
            last = _rows_last(inputs[0], dim)
            return _of(tv, last, (len(plane) - 1,))
        if _is_over_all(tv, dim) and tv not in ahead:
            return _in_two(tv, inputs[0], dim, groups[plane])
        return None

    return rewrite(fusion, rule) if groups else fusion


def _needed_whole(fusion: Fusion, plane: tuple[int, ...]) -> set[TensorView]:
    """What the results of a plane's size are made of."""
    return set(topological([tv for tv in fusion.roots if prod(tv.shape) == prod(plane)]))


def _is_reduction(tv: TensorView) -> bool:
    made = tv.definition
    return made is not None and made.op.family is Family.REDUCTION and is_long(tv)


def _operand(tv: TensorView) -> TensorView:
    assert tv.definition is not None
    return tv.definition.tensors[0]


def _dims(tv: TensorView) -> tuple[int, ...]:
    """The reduced dims, also those of one element."""
    assert tv.definition is not None
    dims = tv.definition.attr("dims")
    assert isinstance(dims, tuple)
    return tuple(d for d in dims if isinstance(d, int))


def _reduced_dim(tv: TensorView) -> int | None:
    """The dim that a reduction combines, if it is one among larger ones."""
    if not _is_reduction(tv) or is_scan(tv):
        return None
    dims = [d for d in _dims(tv) if _operand(tv).shape[d] != 1]
    return dims[0] if len(dims) == 1 and prod(tv.shape) > 1 else None


def _is_along(tv: TensorView, planes: Mapping[tuple[int, ...], int]) -> bool:
    """True for what combines the rows of one of the planes."""
    dim = _reduced_dim(tv)
    return dim is not None and planes.get(_operand(tv).shape) == dim


def _is_over_all(tv: TensorView, dim: int) -> bool:
    """True for a sum over all dims but the rows'."""
    assert tv.definition is not None
    kept = [d for d in range(_operand(tv).ndim) if d not in _dims(tv)]
    return [d for d in kept if _operand(tv).shape[d] != 1] == [dim] and (
        tv.definition.op.state_size == 1
    )


def _groups(
    fusion: Fusion,
    plane: tuple[int, ...],
    dim: int,
    sums: Sequence[TensorView],
    multiprocessors: int,
) -> tuple[int, int] | None:
    """To how many blocks the columns of a plane are dealt, and how many at a time; None where there
    are no `sums` over all of them, the plane is small or its rows are long, or they lie row after
    row."""
    inner = _inner(fusion, plane, dim)
    if not sums or inner is None or not all(_is_over_all(tv, dim) for tv in sums):
        return None
    inputs = [tv for tv in fusion.inputs if isinstance(tv, TensorView)]
    itemsizes = [tv.dtype.itemsize for tv in inputs if prod(tv.shape) == prod(plane)]
    read, rows = sum(itemsizes), plane[dim]
    if read * rows > MAX_ROW or read * prod(plane) < MIN_WALKED * multiprocessors:
        return None
    lanes = gcd(inner, MAX_ALIGNMENT // min(itemsizes))
    vectors, slots = prod(plane) // (rows * lanes), BLOCKS * multiprocessors
    run = gcd(vectors, max(ACROSS, 1 << (HELD // rows).bit_length() - 1))
    if run * lanes * min(itemsizes) < SECTOR:
        return None
    tiles = vectors // run

    def cost(count: int) -> float:
        """Of so many groups: idle blocks, and parts that are written and read again."""
        turns = ceil_div(count, slots) * slots / count
        return turns * (1 + 8 * len(sums) * count / (vectors * lanes * read))

    possible = (n for n in range(multiprocessors, MOST * multiprocessors + 1) if tiles % n == 0)
    count = min(possible, key=cost, default=None)
    return None if count is None else (count, run * lanes)


def _inner(fusion: Fusion, plane: tuple[int, ...], dim: int) -> int | None:
    """Neighbours in memory of the columns of a plane, where its rows lie apart; else None."""
    if dim != len(plane) - 1:
        return prod(plane[dim + 1 :])
    along = [tv for tv in fusion.tensors if _is_along(tv, {plane: dim})]
    for tv in topological([_operand(tv) for tv in along]):
        made = tv.definition
        if made is not None and made.op.name == "permute" and tv.shape == plane:
            order = made.attr("dims")
            assert isinstance(order, tuple)
            if order[-1] != len(plane) - 1 and isinstance(order[-1], int):
                return prod(made.tensors[0].shape[order[-1] + 1 :])
    return None


def _rows_last(source: TensorView, dim: int) -> TensorView:
    """With the columns in their order before the rows."""
    if dim == source.ndim - 1:
        return source
    return call("permute", source, dims=(*(d for d in range(source.ndim) if d != dim), dim))


def _of(tv: TensorView, source: TensorView, dims: tuple[int, ...]) -> TensorView:
    """The reduction `tv` of another operand."""
    assert tv.definition is not None
    made = apply(tv.definition.op, [source], {"dims": dims, **mark_of(tv)})
    assert isinstance(made, TensorView)
    return made if made.shape == tv.shape else _reshaped(made, tv.shape)


def _reshaped(source: TensorView, shape: tuple[int, ...]) -> TensorView:
    return call("reshape", source, new_shape=constants(shape))


def _in_two(tv: TensorView, source: TensorView, dim: int, dealt: tuple[int, int]) -> TensorView:
    """Part g sums every so many-th stretch of columns."""
    last = _rows_last(source, dim)
    made = in_two(tv, _reshaped(last, (prod(last.shape[:-1]), last.shape[-1])), Deal(*dealt))
    return made if made.shape == tv.shape else _reshaped(made, tv.shape)
