"""Slice before rows are reduced, not behind.

    T1 = max(T0, dims=[1]); T2 = sub(T0, T1); T3 = T2[:4]; T4 = T2[4:]    of [8, 256]
        =>   T5, T6 = T0[:4], T0[4:]; T7 = max(T5, dims=[1]); T8 = max(T6, dims=[1])
             T3 = sub(T5, T7); T4 = sub(T6, T8); T1 = cat(T7, T8)

So are both softmaxes of differential attention, and two views of each sample in one batch. What
takes an element of each piece has no row of the whole plane, and would read it again in a launch
behind the reductions of the rows. A thread has one row of each piece instead. Pieces are joined
where all of the plane is stored. Only equal ones, along a dim that is not reduced, and where slices
are behind the reductions, or what is reduced was joined of such pieces: no row is read twice then.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from thunder_fuser.analysis.reductions import is_long, is_reduction
from thunder_fuser.analysis.views import is_stop
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion, following, topological
from thunder_fuser.ir.rewrite import lying_like, rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.stages import reshaped
from thunder_fuser.presegment.stretches import Stretch, Stretches, cut_by

MOST = 4  # pieces, of each of which a thread has a row

Pieces = tuple[Stretch, ...]


def slice_first(fusion: Fusion) -> Fusion:
    """`fusion` with such planes in pieces."""
    planes = list(_planes(fusion))
    if not planes:
        return fusion
    whole = {tv: pieces for plane in planes for tv, pieces in plane.whole.items()}
    shapes = {tv: plane.shape for plane in planes for tv in plane.slices}
    cuts = {tv: cut for plane in planes for tv, cut in plane.slices.items()}
    parts = Stretches()

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        match inputs:
            case (TensorView() as source,) if tv in cuts:
                while source.shape != shapes[tv]:
                    (source,) = source.expr.tensors
                return lying_like(tv, reshaped(parts.of(source, cuts[tv]), tv.shape))
        if tv not in whole:
            return None
        made = _in_pieces(again(tv.expr, inputs), whole[tv], parts)
        return lying_like(tv, made)

    made = rewrite(fusion, rule)
    return fusion if _is_read_again(made, parts) else made


def _is_read_again(fusion: Fusion, parts: Stretches) -> bool:
    """True where something is sliced behind the reductions of pieces all the same."""
    made = set(parts.known.values())
    behind = following(filter(is_reduction, made), fusion.tensors)
    return any(tv.is_of("slice") and tv in behind for tv in made)


def _in_pieces(tv: TensorView, pieces: Pieces, parts: Stretches) -> TensorView:
    """What has these pieces of a tensor, side by side or in turns."""
    made, dim = [parts.of(tv, piece) for piece in pieces], pieces[0].dim
    if pieces[0].step == 1:
        whole = call("cat", *made, dim=dim)
    else:
        size = *tv.shape[:dim], made[0].shape[dim], 1, *tv.shape[dim + 1 :]
        whole = reshaped(
            call("cat", *(reshaped(part, size) for part in made), dim=dim + 1), tv.shape
        )
    parts.known |= {(whole, piece): part for piece, part in zip(pieces, made, strict=True)}
    return whole


@dataclass(frozen=True)
class _Plane:
    """What has the shape of the terms of some `reductions`; `slices` of it, each one of `pieces`;
    and what else is needed of all of them, as results of the reductions are, and what is stored."""

    shape: tuple[int, ...]
    slices: Mapping[TensorView, Stretch]
    whole: Mapping[TensorView, Pieces]


def _planes(fusion: Fusion) -> Iterator[_Plane]:
    """Those that are cut."""
    planes = defaultdict[tuple[int, ...], list[TensorView]](list)
    for tv in filter(is_long, fusion.tensors):
        planes[tv.expr.tensors[0].shape].append(tv)
    slices = {shape: _slices(fusion, shape) for shape in planes}
    for shape, reductions in planes.items():
        pieces = {_pieces(cut, shape[cut.dim]) for cut in slices[shape].values()}
        if len(pieces) != 1 or not (found := pieces.pop()):
            continue
        needed = _needed(fusion, shape, reductions, slices[shape], found)
        if needed is not None:
            yield _Plane(shape, slices[shape], needed)


def _slices(fusion: Fusion, shape: tuple[int, ...]) -> dict[TensorView, Stretch]:
    """Slices of what has that shape, also behind a reshape, and what they take of it; none where
    they are only returned."""
    found = dict[TensorView, Stretch]()
    for tv in fusion.tensors:
        if tv.is_of("slice") and (cut := cut_by(tv)) is not None:
            (source,) = tv.expr.tensors
            while cut is not None and source.shape != shape and source.is_of("reshape"):
                cut, source = _before(source, cut), source.expr.tensors[0]
            if cut is not None and source.shape == shape:
                found[tv] = cut
    return {} if all(_is_shown(fusion, tv) for tv in found) else found


def _before(tv: TensorView, cut: Stretch) -> Stretch | None:
    """What a cut of a reshape takes of one dim of what was reshaped: neighbours, or in turns."""
    source, dim = tv.expr.tensors[0].shape, cut.dim
    before, behind = prod(tv.shape[:dim]), prod(tv.shape[dim + 1 :])
    for own, size in enumerate(source):
        outer, inner = prod(source[:own]), prod(source[own + 1 :])
        first, last = cut.start * behind, cut.end * behind
        if outer == before and cut.step == 1 and first % inner == last % inner == 0:
            return Stretch(own, first // inner, last // inner)
        is_split = inner == behind and size % tv.shape[dim] == 0
        if is_split and cut.size == 1 and size * outer == before * tv.shape[dim]:
            return Stretch(own, cut.start, size, tv.shape[dim])
    return None


def _is_shown(fusion: Fusion, tv: TensorView) -> bool:
    """True for what is returned, as a view of what is stored anyway."""
    users = fusion.uses[tv]
    return all(u.expr.op.family is Family.VIEW and _is_shown(fusion, u) for u in users)


def _pieces(cut: Stretch, extent: int) -> Pieces:
    """The equal pieces of a dim, side by side or in turns, of which a cut is one; none for other
    cuts."""
    count = extent // max(cut.size, 1)
    if count * cut.size != extent or not 1 < count <= MOST:
        return ()
    ends = [(k * cut.size, (k + 1) * cut.size) for k in range(count)]
    beside = tuple(Stretch(cut.dim, *each) for each in ends)
    turns = tuple(Stretch(cut.dim, k, extent, count) for k in range(count))
    return next((p for p in (beside, turns) if cut.places in [x.places for x in p]), ())


def _needed(
    fusion: Fusion,
    shape: tuple[int, ...],
    reductions: Sequence[TensorView],
    slices: Mapping[TensorView, Stretch],
    pieces: Pieces,
) -> dict[TensorView, Pieces] | None:
    """What is needed of all pieces; None where nothing is gained by them, or something is of other
    rows."""
    dim, found, behind = pieces[0].dim, dict[TensorView, Pieces](), set(reductions)
    for tv in reductions:
        if not is_reduction(tv) or dim in tv.expr.dims():
            return None
        before = sum(reduced < dim for reduced in tv.expr.dims())
        found[tv] = tuple(replace(piece, dim=dim - before) for piece in pieces)
    for tv in fusion.tensors:
        if not behind.isdisjoint(tv.producers):
            behind.add(tv)
            others = [u for u in fusion.uses[tv] if not (u in slices or _is_of(u, shape, found))]
            if tv.shape == shape and (others or tv in fusion.roots):
                found[tv] = pieces
                if any(u.expr.op.family is not Family.VIEW or u.is_of("slice") for u in others):
                    return None
    is_gained = not behind.isdisjoint(slices) or any(
        tv.is_of("cat") and prod(tv.shape) == prod(shape) and len(tv.producers) == len(pieces)
        for tv in topological(reductions)
    )
    return found if is_gained else None


def _is_of(tv: TensorView, shape: tuple[int, ...], reductions: Container[TensorView]) -> bool:
    """True for what is computed of a plane in pieces as well."""
    is_pointwise = tv.expr.op.family is Family.POINTWISE and not is_stop(tv)
    return tv in reductions or (is_pointwise and tv.shape == shape)
