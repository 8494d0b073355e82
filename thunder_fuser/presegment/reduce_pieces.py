"""Reduce rows to which a few elements were joined without them, and combine what these come to.

    T2 = cat(T0, T1, dim=1); T3 = exp(T2); T4 = sum(T3, dims=[1]); T5 = slice(T3, [0, 0], [8, 256])
        =>   T5 = exp(T0); T4 = add(sum(T5, dims=[1]), sum(exp(T1), dims=[1]))

    T0: [8, 256], T1: [8, 1]

So are the scores of attention with a sink, which takes its part of the softmax and is dropped: what
is read and stored has rows of 256, and what is reduced had rows of 257. Pads are such joins too, as
of the gradient of what was dropped. Not where rows are stored with what was joined.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod

from thunder_fuser.analysis.reductions import (
    MAX_REPEATED,
    is_reduction,
    terms_and_results,
    terms_of,
)
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import Expr, TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.stretches import Stretch, Stretches, cut_by, joined, numbers

_COMBINED = {"max": "maximum", "min": "minimum", "sum": "add", "prod": "mul"}


def reduce_pieces(fusion: Fusion) -> Fusion:
    """`fusion` with such rows reduced without what was joined."""
    found = _found(fusion)
    planes = {terms_of(tv).shape: piece for tv, piece in found.items()}
    parts = Stretches()

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        match inputs:
            case (TensorView() as source,) if tv in found:
                return _reduced(tv, source, found[tv], parts)
            case (TensorView() as source,) if tv.is_of("slice") and source.shape in planes:
                cut, piece = cut_by(tv), planes[source.shape]
                is_part = cut is not None and (cut == piece or _is_beside(cut, piece))
                return parts.of(source, cut) if is_part and cut is not None else None
        return None

    return rewrite(fusion, rule) if found else fusion


def _reduced(tv: TensorView, source: TensorView, piece: Stretch, parts: Stretches) -> TensorView:
    """The reduction `tv` of the `piece`, and what lies before and behind it."""
    dim, extent, made = piece.dim, source.shape[piece.dim], None
    for stretch in (piece, Stretch(dim, 0, piece.start), Stretch(dim, piece.end, extent)):
        if stretch.size:
            terms = parts.of(source, stretch)
            own = again(tv.expr, [terms])
            made = own if made is None else call(_COMBINED[tv.expr.op.name], made, own)
    assert made is not None
    return made


def _found(fusion: Fusion) -> dict[TensorView, Stretch]:
    """The reductions of such rows, and their longest piece: all of a plane, of which nothing is
    stored, have the same one."""
    planes = defaultdict[tuple[int, ...], list[TensorView]](list)
    for tv in filter(_is_of_many, fusion.tensors):
        planes[terms_of(tv).shape].append(tv)
    stored = {prod(tv.shape) for tv in (*fusion.outputs, *(w.value for w in fusion.writes))}
    found = dict[TensorView, Stretch]()
    for shape, reductions in planes.items():
        if prod(shape) not in stored and all(map(_is_in_parts, reductions)):
            pieces = set(map(_longest, reductions))
            if len(pieces) == 1 and (piece := pieces.pop()) is not None:
                found |= dict.fromkeys(reductions, piece)
    return found


def _is_of_many(tv: TensorView) -> bool:
    """True for a reduction that no element combines anew."""
    return is_reduction(tv) and terms_and_results(tv)[0] > MAX_REPEATED


def _is_in_parts(tv: TensorView) -> bool:
    """True for a reduction of one dim that its parts lead to without a rounding."""
    name = tv.expr.op.name
    if not is_reduction(tv) or name not in _COMBINED:
        return False
    is_exact = name in ("max", "min") or not tv.dtype.is_reduced_precision
    return len(tv.expr.dims()) == 1 and is_exact


def _longest(tv: TensorView) -> Stretch | None:
    """The stretch of the reduced dim that is one piece of all that was joined; None where nothing
    was, or more than a few elements."""
    dim, extent = _dim(tv), terms_of(tv).shape[_dim(tv)]
    pieces = list(_pieces(terms_of(tv), dim))
    start, end = max((a for a, _ in pieces), default=0), min((b for _, b in pieces), default=0)
    is_long_enough = end - start > MAX_REPEATED
    is_most = 0 < extent - (end - start) <= MAX_REPEATED
    return Stretch(dim, start, end) if is_long_enough and is_most else None


def _pieces(tv: TensorView, dim: int) -> Iterator[tuple[int, int]]:
    """The longest piece of each cat and pad along `dim` of which `tv` is computed element by
    element."""
    todo, seen = [tv], {tv}
    while todo:
        match (of := todo.pop()).definition:
            case Expr(op=row) as made if row.family is Family.POINTWISE:
                more = {t for t in made.tensors if t.shape == of.shape} - seen
                todo, seen = [*todo, *more], seen | more
            case Expr(op=row) as made if row.name == "cat" and made.dim == dim:
                ends = ((a, b) for _, a, b in joined(made, dim))
                yield max(ends, key=lambda piece: piece[1] - piece[0])
            case Expr(op=row) as made if row.name == "pad":
                yield _padded(of, made, dim)


def _padded(tv: TensorView, made: Expr, dim: int) -> tuple[int, int]:
    """Where along `dim` what was padded lies."""
    widths = numbers(made, "pad_widths")[2 * (tv.ndim - 1 - dim) :]
    left, right = widths[:2] or (0, 0)
    return max(left, 0), tv.shape[dim] - max(right, 0)


def _is_beside(cut: Stretch, piece: Stretch) -> bool:
    is_apart = cut.end <= piece.start or piece.end <= cut.start
    return cut.dim == piece.dim and cut.step == 1 and is_apart


def _dim(tv: TensorView) -> int:
    (dim,) = tv.expr.dims()
    return dim
