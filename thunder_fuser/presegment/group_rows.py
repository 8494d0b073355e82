"""Sum what the rows of many images share, such as a row of bias, beside the sums along them.

    T1: f32[i64, i16, i257] = sum(T0: f32[i64, i16, i257, i257], dims=[3])
    T2: f32[i16, i257, i257] = sum(T0, dims=[0])
        =>   T3: f32[i16, i257, i64, i257] = permute(T0);  T2 = sum(T3, dims=[2])

Row after row, what the images add up to is a sum down the columns of those rows of the plane that
one block walks, all images side by side or in turns, each in a part of a warp: the plane is read
once. Where rows are few, several blocks have some of the images each, and their parts are summed
behind it, as those of `split_reductions.py`.

Of rows of less than a line memory would see a piece from each image. A block walks neighbours
then, the same of one image in each turn, which pass through shared memory as one stretch, and a
thread sums what it has of a row over the turns (`schedule/stretches.py`):

    T2: f32[i8, i17, i17] = sum(T0: f32[i29025, i8, i17, i17], dims=[0])
        =>   T3: f32[i29082, i8, i17, i17] = pad(T0);  T4: f32[i74, i393, i136, i17] = reshape(T3)
             T5: f32[i393, i136, i74, i17] = permute(T4)
             T6: f32[i393, i136, i17] = sum(T5, dims=[2], sides=136);  T2 = sum(T6, dims=[0])

Several images are as one where a part of a single one is no whole vectors or fills no block; then
each of them has a part of the sum.

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
from thunder_fuser.analysis.reductions import (
    SIDES,
    WALKED,
    inputs_of_size,
    is_along,
    is_reduction,
    is_summed,
    plane_of,
    runs_of,
)
from thunder_fuser.analysis.short_rows import (
    MANY_GROUPS,
    is_much,
    is_short,
    rows_at_once,
    share_of_image,
    shifted_vectors,
    threads_beside,
)
from thunder_fuser.analysis.walked_rows import is_busy
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import OpDef
from thunder_fuser.presegment.stages import padded, reduced, reshaped, widened
from thunder_fuser.target import Target

BLOCKS = 4  # of a multiprocessor, as many as there should be at least
MAX_PARTS = 32  # of the images, whose sums one thread adds
MIN_PIECE = 128  # bytes of a row, one of each image: rows of 49 in 16 bits were walked in 1042 us
# where two kernels take 607
MIN_TURNS = 8  # images of a block, whose sums cost as much as one or two
TOGETHER = (1, 2, 4, 8)  # images that are as one, the fewest of which a part fills a block
MAX_SUMS = 2  # of a thread beside what it has of its row


@dataclass(frozen=True)
class Images:
    """So many of them, of `rows` each of so many `columns`."""

    count: int
    rows: int
    columns: int

    @property
    def plane(self) -> tuple[int, int]:
        return self.count * self.rows, self.columns


@dataclass(frozen=True)
class _Deal:
    """Images in so many `parts`, which are walked by blocks of their own: by one for each row, or
    for each `sides` of the rows of so many images `together`, which it has side by side."""

    parts: int
    sides: int | None = None
    together: int = 1

    @property
    def sums(self) -> int:
        """Of each place of an image, by different threads."""
        return self.parts * self.together


def group_rows(
    fusion: Fusion,
    layouts: Mapping[TensorView, Layout],
    target: Target,
) -> Fusion:
    """`fusion`, whose inputs lie as `layouts`, with such sums over groups of rows; of neighbours
    where an engine copies stretches of memory, as GPUs with clusters have it."""
    along = [*filter(is_along, fusion.tensors)]
    planes = {plane_of(tv) for tv in along if plane_of(tv)}
    ahead = set(topological(along))
    down = [tv for tv in fusion.tensors if is_summed(tv)]
    sums = {tv: images_of(tv, planes) for tv in fusion.tensors if tv not in ahead}
    found = {tv: images for tv, images in sums.items() if images is not None}
    only = {i for i in found.values() if not any(plane_of(tv) == i.plane for tv in down)}
    alone = {i for i in only if [o.plane for o in only].count(i.plane) == 1}
    summed = {i: [tv.expr.op for tv in found if found[tv] == i] for i in alone}
    deal_of = partial(_deal, layouts, target)
    deals = {i: deal_of(i, ops, _read(fusion, i)) for i, ops in summed.items()}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        images = found.get(tv)
        deal = None if images is None else deals.get(images)
        return None if images is None or deal is None else _grouped(tv, inputs[0], images, deal)

    return rewrite(fusion, rule)


def images_of(tv: TensorView, planes: Iterable[tuple[int, int] | None]) -> Images | None:
    """What a reduction over leading dims has as terms, where they are images of several rows of one
    of `planes`."""
    if not is_reduction(tv) or 0 in tv.shape or not tv.expr.op.is_finished:
        return None
    runs = runs_of(tv)
    if not runs or len(runs) > 2 or not runs[0].is_reduced:
        return None
    terms = runs[0].size
    for plane in planes:
        rows, columns = plane or (0, 0)
        if rows * columns == terms * prod(tv.shape) and rows % terms == 0 and rows > terms:
            return Images(terms, prod(tv.shape) // columns, columns)
    return None


def _read(fusion: Fusion, images: Images) -> list[TensorView]:
    """What the fusion reads of the size of the plane."""
    return inputs_of_size(fusion, prod(images.plane))


def _deal(
    layouts: Mapping[TensorView, Layout],
    target: Target,
    images: Images,
    ops: Sequence[OpDef],
    read: Sequence[TensorView],
) -> _Deal | None:
    """How blocks share the images, whose plane is `read`; None to leave what `ops` sum."""
    rows, columns = images.plane
    itemsize = min((tv.dtype.itemsize for tv in read), default=4)
    if not is_much(rows * columns, target.multiprocessors):
        return None
    is_dense = _lie_dense(read, layouts)
    if columns * itemsize >= MIN_PIECE:
        return _row_by_row(images, itemsize, is_dense, target)
    is_copied = target.copies_stretches and is_dense
    if not (is_copied and read and len(ops) <= MAX_SUMS):
        return None
    is_even = any(op.neutral is None for op in ops)
    return _in_stretches(images, itemsize, is_even, target)


def _row_by_row(images: Images, itemsize: int, is_dense: bool, target: Target) -> _Deal | None:
    """A block for each row, or for the same of each part of the images."""
    lanes = MAX_ALIGNMENT // itemsize
    threads = threads_beside(shifted_vectors(images.columns, lanes), sums=1)
    begins_alike = images.rows * images.columns % lanes == 0 and is_dense
    if threads is None or (images.columns % lanes and not begins_alike):
        return None
    wanted = ceil_div(BLOCKS * target.multiprocessors, images.rows)
    allowed = (n for n in range(min(wanted, MAX_PARTS), 0, -1) if images.count % n == 0)
    if not is_short(images.columns // lanes) and images.rows * wanted <= MANY_GROUPS:
        return None  # a block has one after another: `walk_images`
    found = (n for n in allowed if rows_at_once(threads, images.count // n))
    return next(map(_Deal, found), None)


def _in_stretches(images: Images, itemsize: int, is_even: bool, target: Target) -> _Deal | None:
    """A block for each stretch of an image, or for the same of each part of the images: as many
    blocks as there can be at a time. Where `is_even` all parts have as many images."""
    for together in TOGETHER:
        count, rows = ceil_div(images.count, together), images.rows * together
        share = share_of_image(rows, images.columns, itemsize)
        if share is None or (is_even and images.count % together):
            continue
        stretches = rows // share.sides
        limit = min(share.blocks * target.multiprocessors // stretches, count // MIN_TURNS)
        parts = next((n for n in range(limit, 0, -1) if count % n == 0), 0)
        if limit and not is_even:
            parts = ceil_div(count, ceil_div(count, limit))
        if is_busy(parts * stretches, target.multiprocessors):
            return _Deal(parts, share.sides, together)
    return None


def _lie_dense(tensors: Sequence[TensorView], layouts: Mapping[TensorView, Layout]) -> bool:
    """True for tensors that lie row after row, from an aligned place on."""
    found = [(tv, layouts[tv]) for tv in tensors]
    return all(
        lie.strides == dense_strides(tv.shape) and lie.alignment == MAX_ALIGNMENT
        for tv, lie in found
    )


def _grouped(tv: TensorView, source: Value, images: Images, deal: _Deal) -> TensorView:
    """`tv` as sums over some of the images, next to the dim of a row, and over the parts."""
    walked = _of_rows if deal.sides is None else _of_stretches
    made = walked(tv, widened(tv, source), images, deal)
    made = reduced(tv, made, (0,)) if deal.sums > 1 else reduced(tv, made)
    return reshaped(made, tv.shape)


def _of_rows(tv: TensorView, source: TensorView, images: Images, deal: _Deal) -> TensorView:
    """What each part of the images adds up to, by blocks that have a row of each image."""
    several = () if deal.parts == 1 else (deal.parts,)
    sizes = [images.count // deal.parts, *several, images.rows, images.columns]
    last = len(sizes) - 1
    mine = call("permute", reshaped(source, sizes), dims=(*range(1, last), 0, last))
    return produce(tv.expr.op, [mine], {"dims": (last - 1,), WALKED: images.plane[0]})


def _of_stretches(tv: TensorView, source: TensorView, images: Images, deal: _Deal) -> TensorView:
    """The same by blocks that have several neighbours of each."""
    assert deal.sides is not None
    count, rows = ceil_div(images.count, deal.together), images.rows * deal.together
    turns, blocks = ceil_div(count, deal.parts), deal.parts * rows // deal.sides
    rest = turns * deal.parts * deal.together - images.count
    if rest:
        source = padded(tv, reshaped(source, [images.count, *tv.shape]), rest)
    pieces = reshaped(source, [turns, blocks, deal.sides, images.columns])
    mine = call("permute", pieces, dims=(1, 2, 0, 3))
    marks = {WALKED: images.plane[0], SIDES: deal.sides}
    walked = produce(tv.expr.op, [mine], {"dims": (2,), **marks})
    return reshaped(walked, [deal.sums, images.rows, images.columns]) if deal.sums > 1 else walked
