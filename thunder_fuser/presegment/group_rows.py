"""Sum what the rows of many images share, such as a row of bias, beside the sums along them.

    T1: f32[i64, i16, i257] = sum(T0: f32[i64, i16, i257, i257], dims=[3])
    T2: f32[i16, i257, i257] = sum(T0, dims=[0])
        =>   T3: f32[i16, i257, i64, i257] = permute(T0);  T2 = sum(T3, dims=[2])

Row after row, what the images add up to is a sum down the columns of those rows of the plane that
one block walks, all images side by side or in turns, each in a part of a warp: the plane is read
once. Where rows are few, several blocks have some of the images each, and their parts are summed
behind it, as those of `split_reductions.py`.

Of short rows alone, which lie dense where no vector fits them, so that the same row of all images
begins in the same lane; and where no other sum is down their columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod

from thunder_fuser.analysis.digits import ceil_div
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, Layout, dense_strides
from thunder_fuser.analysis.reductions import WALKED, is_long, is_scan, plane_of, row_shape
from thunder_fuser.analysis.short_rows import (
    is_much,
    rows_at_once,
    shifted_vectors,
    threads_beside,
)
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family
from thunder_fuser.presegment.split_reductions import (
    constants,
    is_summed,
    reduced,
    widened,
)

BLOCKS = 4  # of a multiprocessor, as many as there should be at least
MAX_PARTS = 32  # of the images, whose sums one thread adds
MIN_PIECE = 128  # bytes of a row, one of each image: rows of 49 in 16 bits were walked in 1042 us
# where two kernels take 607


@dataclass(frozen=True)
class _Images:
    """So many of them, of `rows` each of so many `columns`."""

    count: int
    rows: int
    columns: int

    @property
    def plane(self) -> tuple[int, int]:
        return self.count * self.rows, self.columns


def group_rows(
    fusion: Fusion, layouts: Mapping[TensorView, Layout], multiprocessors: int
) -> Fusion:
    """`fusion`, whose inputs lie as `layouts`, with such sums over groups of rows."""
    along = [tv for tv in fusion.tensors if is_long(tv) and not is_scan(tv) and row_shape(tv)]
    planes = {plane_of(tv) for tv in along if plane_of(tv)}
    ahead = set(topological(along))
    down = [tv for tv in fusion.tensors if is_summed(tv)]
    sums = {tv: _images_of(tv, planes) for tv in fusion.tensors if tv not in ahead}
    found = {tv: images for tv, images in sums.items() if images is not None}
    only = {i for i in found.values() if not any(plane_of(tv) == i.plane for tv in down)}
    parts_of = partial(_parts, fusion=fusion, layouts=layouts, multiprocessors=multiprocessors)
    alone = {i for i in only if [o.plane for o in only].count(i.plane) == 1}
    parts = {images: parts_of(images) for images in alone}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        images = found.get(tv)
        count = None if images is None else parts.get(images)
        return None if images is None or count is None else _grouped(tv, inputs[0], images, count)

    return rewrite(fusion, rule)


def _images_of(tv: TensorView, planes: Iterable[tuple[int, int] | None]) -> _Images | None:
    """What a reduction over leading dims has as terms, where they are images of several rows of one
    of `planes`."""
    if tv.definition is None or tv.definition.op.family is not Family.REDUCTION or 0 in tv.shape:
        return None
    sizable = [a for a in tv.domain.logical if a.size != 1]
    reduced = [a.is_reduction for a in sizable]
    terms = prod(a.size for a in sizable if a.is_reduction)
    if reduced != sorted(reduced, reverse=True) or terms == 1 or not tv.definition.op.is_finished:
        return None
    for plane in planes:
        rows, columns = plane or (0, 0)
        ends = (prod(tv.shape[k:]) for k in range(1, tv.ndim))
        if rows * columns == terms * prod(tv.shape) and columns in ends and rows > terms:
            return _Images(terms, prod(tv.shape) // columns, columns)
    return None


def _parts(
    images: _Images, fusion: Fusion, layouts: Mapping[TensorView, Layout], multiprocessors: int
) -> int | None:
    """Of the images, each of which blocks of their own walk; None to leave the sum."""
    rows, columns = images.plane
    read = [tv for tv in fusion.inputs if isinstance(tv, TensorView)]
    read = [tv for tv in read if prod(tv.shape) == rows * columns]
    itemsize = min((tv.dtype.itemsize for tv in read), default=4)
    lanes = MAX_ALIGNMENT // itemsize
    threads = threads_beside(shifted_vectors(columns, lanes), sums=1)
    if (
        threads is None
        or columns * itemsize < MIN_PIECE
        or not is_much(rows * columns, multiprocessors)
    ):
        return None
    if columns % lanes and not (images.rows * columns % lanes == 0 and _lie_dense(read, layouts)):
        return None
    wanted = ceil_div(BLOCKS * multiprocessors, images.rows)
    allowed = (n for n in range(min(wanted, MAX_PARTS), 0, -1) if images.count % n == 0)
    return next((n for n in allowed if rows_at_once(threads, images.count // n)), None)


def _lie_dense(tensors: Sequence[TensorView], layouts: Mapping[TensorView, Layout]) -> bool:
    """True for tensors that lie row after row, from an aligned place on."""
    found = [(tv, layouts[tv]) for tv in tensors]
    return all(
        lie.strides == dense_strides(tv.shape) and lie.alignment == MAX_ALIGNMENT
        for tv, lie in found
    )


def _grouped(tv: TensorView, source: Value, images: _Images, parts: int) -> TensorView:
    """`tv` as sums over some of the images, next to the dim of a row, and over the parts."""
    assert tv.definition is not None
    several = () if parts == 1 else (parts,)
    sizes = constants([images.count // parts, *several, images.rows, images.columns])
    planes = call("reshape", widened(tv, source), new_shape=sizes)
    last = len(sizes) - 1
    mine = call("permute", planes, dims=(*range(1, last), 0, last))
    walked = apply(tv.definition.op, [mine], {"dims": (last - 1,), WALKED: images.plane[0]})
    assert isinstance(walked, TensorView)
    made = reduced(tv, walked, (0,)) if several else reduced(tv, walked)
    return call("reshape", made, new_shape=constants(tv.shape))
