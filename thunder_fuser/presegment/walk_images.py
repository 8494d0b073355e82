"""Sum what the rows of many images share, such as a position's, beside sums along the rows.

    T1: f32[i128, i512] = sum(T0: f32[i128, i512, i768], dims=[2])
    T2: f32[i768] = sum(T0, dims=[0, 1]);  T3: f32[i512, i768] = sum(T0, dims=[0])
        =>   T4: f32[i512, i128, i768] = permute(T0);  T5: f32[i512, i768] = sum(T4, dims=[1])
             T2 = sum(T5, dims=[0]);  T3 = T5

The gradients of a norm of tokens with positions. Blocks walk rows as `split_reductions.py` has them
walk, but each has the same row of every image, so that what it sums down the columns is what the
images share, and the plane is read once. Where rows are few, as the groups of a grouped norm, a
block has some of the images, and the parts are summed behind it.

Of rows that one block has to itself, where all other sums down their columns are over all rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd

from thunder_fuser.analysis.kept_rows import kept_columns
from thunder_fuser.analysis.reductions import (
    MAX_SHORT_REDUCTION,
    is_along,
    is_down,
    is_summed,
    needed_by_rows,
    plane_of,
    walked_rows,
)
from thunder_fuser.analysis.short_rows import is_short
from thunder_fuser.analysis.walked_rows import (
    WalkedRow,
    blocks_of_row,
    is_busy,
    rows_at_once,
    walked_row,
)
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.group_rows import Images, images_of
from thunder_fuser.presegment.split_reductions import MIN_TURNS, Deal, in_parts, in_two
from thunder_fuser.presegment.stages import reduced, reshaped
from thunder_fuser.target import Target


@dataclass(frozen=True)
class _Sums:
    """Those `down` the columns of all images' rows, and those over the images, that are `shared`.
    Neither is of what rows wait for."""

    images: Images
    down: tuple[TensorView, ...]
    shared: tuple[TensorView, ...]

    @property
    def all(self) -> tuple[TensorView, ...]:
        return *self.down, *self.shared


def walk_images(fusion: Fusion, target: Target) -> Fusion:
    """`fusion` with such sums walked by the same blocks."""
    is_kept = kept_columns(fusion, target.max_cluster)
    deals: dict[TensorView, tuple[Images, Deal]] = {}
    for sums in _found(fusion):
        if any(map(is_kept, sums.all)):
            continue  # a kernel of columns reads them anyway
        row = walked_row(sums.images.plane, fusion, len(sums.all))
        is_even = any(tv.expr.op.neutral is None for tv in sums.all)
        most = MAX_SHORT_REDUCTION if sums.down else sums.images.count
        deal = _deal(sums.images, row, most, is_even, target)
        if deal is not None:
            deals |= dict.fromkeys(sums.all, (sums.images, deal))

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        if tv not in deals:
            return None
        images, deal = deals[tv]
        if is_down(tv) and plane_of(tv) == images.plane:
            return in_two(tv, inputs[0], deal)
        return _of_images(tv, inputs[0], images, deal)

    return rewrite(fusion, rule) if deals else fusion


def _found(fusion: Fusion) -> Iterator[_Sums]:
    """The sums of each plane that is shared so, and has sums along its rows."""
    for plane, ahead in needed_by_rows(filter(is_along, fusion.tensors)).items():
        beside = [tv for tv in fusion.tensors if tv not in ahead]
        down = [tv for tv in beside if is_down(tv) and plane_of(tv) == plane]
        shared = {tv: images for tv in beside if (images := images_of(tv, [plane])) is not None}
        kinds = set(shared.values())
        if len(kinds) == 1 and all(map(_is_over_all, down)):
            yield _Sums(kinds.pop(), tuple(down), tuple(shared))


def _is_over_all(tv: TensorView) -> bool:
    """True for a sum down columns over all dims before those that are kept."""
    reduced = [a.is_reduction for a in tv.domain.logical]
    is_leading = reduced == sorted(reduced, reverse=True)
    return is_summed(tv) and is_leading and walked_rows(tv) is None


def _deal(
    images: Images,
    row: WalkedRow,
    most: int,
    is_even: bool,
    target: Target,
) -> Deal | None:
    """A part for each row of an image, or for the same of each of up to `most` parts of the images
    if the machine has as many at once. None where rows are short, or not to be walked by a block
    each, as those of which each lane would be loaded alone."""
    lanes = gcd(images.columns, row.lanes)
    vectors = images.columns // lanes
    is_large = row.is_worth_a_walk(images.plane[0], target.multiprocessors)
    is_odd = 2 * lanes < row.lanes
    if is_short(vectors) or is_odd or not is_large or blocks_of_row(row, target.max_cluster) != 1:
        return None
    at_once = rows_at_once(row, 1, target.multiprocessors)
    most = min(images.count // MIN_TURNS, most, at_once)
    counts = [n for n in range(1, most + 1) if not (is_even and images.count % n)]
    fitting = [n for n in counts if n * images.rows <= at_once]
    parts = max(fitting or counts[:1], default=0) * images.rows
    return Deal(parts) if is_busy(parts, target.multiprocessors) else None


def _of_images(tv: TensorView, source: Value, images: Images, deal: Deal) -> TensorView:
    """`tv` of what the parts of the images add up to."""
    rows, columns = images.plane
    walked = in_parts(tv, source, deal, rows, [columns])
    several = deal.parts // images.rows
    if several > 1:
        parts = reshaped(walked, [several, images.rows, columns])
        made = reduced(tv, parts, (0,))
    else:
        made = reduced(tv, walked)
    return reshaped(made, tv.shape)
