"""Reduce rows that blocks share in pieces that a block keeps, where sums below a maximum would read
them again, or other reductions read such pieces, or all rows.

    T1 = max(T0, dims=[1]);  T2 = sub(T0, T1);  T3 = sum(mul(exp(T2), T2), dims=[1])
        =>   T4: f32[i8, i1024, i8192] = reshape(T0: f32[i8, i8388608])
             T5 = max(T4, dims=[2]);  T6 = sub(T4, T5)
             T7 = sum(exp(T6), dims=[2]);  T8 = sum(mul(exp(T6), T6), dims=[2])
             T1 = max(T5, dims=[1]);  T9 = sub(T5, T1)
             T3 = sum(add(mul(exp(T9), T8), mul(mul(exp(T9), T7), T9)), dims=[1])

An entropy is such a sum, and a divergence, of distances below two maxima, and a cross entropy of
probabilities, of weighed distances alone (`below_maxima`). Plain sums of exponentials are one
reduction already (`one_pass_exponentials`), but those of capped logits, of which few need an exact
tanh where a block has the row (`kernel/near.py`). A place is looked for in pieces
(`frontend/extrema.py`), and the value that it has, too, then.

Sums of all rows are beside those along them where a block walks the same piece of each:

    T1 = sum(T0, dims=[0]);  T2 = sum(T0, dims=[1])
        =>   T3: f32[i8, i1024, i8192] = reshape(T0);  T2 = sum(sum(T3, dims=[2]), dims=[1])
             T4: f32[i1024, i8, i8192] = permute(T3);  T1 = reshape(sum(T4, dims=[1]))

Rows that have no such pieces stay. Not with `strict`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from math import prod

from thunder_fuser.analysis.reductions import is_along, is_long_reduction, is_reduction, terms_of
from thunder_fuser.analysis.shared_rows import Test
from thunder_fuser.analysis.walked_rows import is_walked_alone, walked_row
from thunder_fuser.ir.fusion import Fusion, following, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.below_maxima import Below, Pieces, below_maxima
from thunder_fuser.target import Target

SIZES = 1024, 8192  # elements of a piece, the fewest and the most
LANES = 64  # of which it is a multiple, so that pieces begin in whole lines
BLOCKS = 4  # of a multiprocessor, which there are pieces for, if they are no shorter than that


def cut_rows(fusion: Fusion, is_shared: Test, target: Target) -> Fusion:
    """`fusion` with such rows in pieces, of reductions that `is_shared` on `target`."""
    planes = defaultdict[tuple[int, ...], list[TensorView]](list)
    for tv in filter(is_long_reduction, fusion.tensors):
        if is_shared(tv) and _is_of_rows(tv):
            planes[terms_of(tv).shape].append(tv)
    pieces = dict[TensorView, Pieces]()
    for shape, reductions in planes.items():
        if _wait(pieces, reductions) or _wait(reductions, pieces):
            continue
        found = _pieces(fusion, shape, reductions, target)
        pieces |= {} if found is None else dict.fromkeys([*reductions, *found.down], found)

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        return pieces[tv].whole(tv) if tv in pieces else None

    return rewrite(fusion, rule) if pieces else fusion


def piece_size(shape: tuple[int, ...], target: Target) -> int | None:
    """The most elements of equal pieces of the rows of a plane, of which there are enough for
    the multiprocessors; None for no such."""
    least, most = SIZES
    most = min(most, max(prod(shape) // (BLOCKS * target.multiprocessors), least))
    sizes = range(most // LANES * LANES, least - 1, -LANES)
    return next((n for n in sizes if shape[-1] % n == 0), None)


def _wait(some: Iterable[TensorView], others: Iterable[TensorView]) -> bool:
    """True where some tensors are made of others."""
    return not set(topological(some)).isdisjoint(others)


def _is_of_rows(tv: TensorView) -> bool:
    """True for a reduction of the last dim."""
    return tv.expr.dims() == (terms_of(tv).ndim - 1,)


def _pieces(
    fusion: Fusion,
    shape: tuple[int, ...],
    reductions: list[TensorView],
    target: Target,
) -> Pieces | None:
    """How the rows of a plane of that shape are cut; None to leave its reductions."""
    behind = following(reductions, fusion.tensors)
    late = [tv for tv in reductions if terms_of(tv) in behind]
    first = [tv for tv in reductions if terms_of(tv) not in behind]
    tops = [tv for tv in first if tv.is_of("max")]
    below = dict[TensorView, Below]()
    for tv in late:
        found = below_maxima(terms_of(tv), tops, behind) if tv.is_of("sum") else None
        if found is None:
            return None
        below[tv] = found
    if not all(tv.expr.op.is_finished for tv in first):
        return None
    size = _size_of_others(fusion, shape, reductions)
    if size is None and any(map(_is_kept_best, below.values())):
        size = piece_size(shape, target)
    if size is not None or below:
        return None if size is None else Pieces(shape, size, behind, below)
    down = [tv for tv in _down(fusion, shape, reductions) if tv not in behind]
    size = piece_size(shape, target)
    if size is None or not down or not _are_walked(fusion, shape, size, len(down), target):
        return None
    return Pieces(shape, size, behind, below, down)


def _is_kept_best(below: Below) -> bool:
    """True for terms that no single reduction sums, and for exponentials of what takes fewer
    instructions near zero: how far a thread's elements are is known before they are computed."""
    computed = topological([terms_of(below.top)])
    has_near = any(tv.definition is not None and tv.definition.op.near for tv in computed)
    return bool(below.others or below.weights) or has_near


def _down(
    fusion: Fusion, shape: tuple[int, ...], reductions: list[TensorView]
) -> Iterator[TensorView]:
    """The reductions of all dims but the last that read the same, and that no row waits for."""
    own, ahead = set(_read(reductions, shape)), set(topological(reductions))
    dims = tuple(range(len(shape) - 1))
    for tv in fusion.tensors:
        if is_reduction(tv) and terms_of(tv).shape == shape and tv.expr.dims() == dims:
            reads_same = not own.isdisjoint(_read([tv], shape))
            if reads_same and tv not in ahead and tv.expr.op.is_finished:
                yield tv


def _are_walked(
    fusion: Fusion, shape: tuple[int, ...], size: int, sums: int, target: Target
) -> bool:
    """True where one block walks pieces of that size, with so many sums down their columns."""
    rows = prod(shape) // size
    row = walked_row((rows, size), fusion, sums)
    is_large = row.is_worth_a_walk(rows, target.multiprocessors)
    return is_large and is_walked_alone(row.vectors, sums)


def _size_of_others(
    fusion: Fusion, shape: tuple[int, ...], reductions: Iterable[TensorView]
) -> int | None:
    """The elements of pieces of these rows that other reductions of the same tensors are of."""
    own = set(_read(reductions, shape))
    for tv in filter(is_along, fusion.tensors):
        *rows, count, size = (1, 1, *terms_of(tv).shape)
        is_cut = tuple(rows[2:]) == shape[:-1] and count * size == shape[-1] and _is_of_rows(tv)
        if is_cut and count > 1 and not own.isdisjoint(_read([tv], shape)):
            return size
    return None


def _read(reductions: Iterable[TensorView], shape: tuple[int, ...]) -> list[TensorView]:
    """What `reductions` read of the size of a plane."""
    found = topological(reductions)
    return [tv for tv in found if tv.definition is None and prod(tv.shape) == prod(shape)]
