"""Sum over the rows of each sample in all images, such as those of a head, beside the sums along
them.

    T1: f32[i64, i16, i256] = sum(T0: f32[i64, i16, i256, i320], dims=[3])
    T2: f32[i16, i320] = sum(T0, dims=[0, 2])
        =>   T3: f32[i64, i16, i16, i16, i320] = reshape(T0)
             T4: f32[i16, i16, i64, i16, i320] = permute(T3)    head, part, image, row of the part
             T5: f32[i16, i16, i320] = sum(T4, dims=[2, 3]);  T2 = sum(T5, dims=[1])

A block walks a part of a sample's rows in every image, neighbours side by side if they are short,
and the parts are summed behind it: the plane is read once. Parts are as many as there can be blocks
at a time, or as few more rows as divide those of a sample.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from thunder_fuser.analysis.reductions import (
    MAX_SHORT_REDUCTION,
    WALKED,
    is_along,
    is_summed,
    needed_by_rows,
    plane_of,
    runs_of,
    walked_rows,
)
from thunder_fuser.analysis.short_rows import THREADS, is_much, is_short, threads_of_row
from thunder_fuser.analysis.walked_rows import (
    WalkedRow,
    blocks_of_row,
    is_busy,
    rows_at_once,
    walked_row,
)
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.split_reductions import MIN_TURNS, MIN_VECTORS, SHORT_THREADS
from thunder_fuser.presegment.stages import reduced, reshaped, widened
from thunder_fuser.target import Target


@dataclass(frozen=True)
class _Samples:
    """So many images of so many samples, of `rows` each of so many `columns`."""

    images: int
    count: int
    rows: int
    columns: int

    @property
    def plane(self) -> tuple[int, int]:
        return self.images * self.count * self.rows, self.columns


def group_samples(fusion: Fusion, target: Target) -> Fusion:
    """`fusion` with such sums, where it has one down the columns of a plane."""
    ahead = needed_by_rows(filter(is_along, fusion.tensors))
    count = Counter(plane_of(tv) for tv in fusion.tensors if is_summed(tv))

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        plane = plane_of(tv)
        if plane not in ahead or tv in ahead[plane] or count[plane] != 1 or not is_summed(tv):
            return None
        samples = _samples_of(tv)
        if samples is None or samples.plane != plane:
            return None
        parts = _parts(samples, walked_row(plane, fusion, 1), target)
        return None if parts is None else _grouped(tv, inputs[0], samples, parts)

    return rewrite(fusion, rule)


def _samples_of(tv: TensorView) -> _Samples | None:
    """What a reduction over two runs of dims has as terms, with dims that are kept between and
    behind them."""
    if walked_rows(tv) is not None:
        return None
    match runs_of(tv):
        case [(images, True), (count, False), (rows, True), (columns, False)]:
            return _Samples(images, count, rows, columns)
    return None


def _parts(samples: _Samples, row: WalkedRow, target: Target) -> int | None:
    """Of the rows of a sample, the most that divide them for as many blocks as walk at a time; None
    to leave the sum."""
    rows, columns = samples.plane
    if columns % row.lanes:
        return None
    if is_short(row.vectors):
        side = THREADS // threads_of_row(row.vectors)
        is_large, at_once = (
            is_much(rows * columns, target.multiprocessors),
            SHORT_THREADS // THREADS,
        )
        limit = at_once * target.multiprocessors
    else:
        side = 1
        is_large = row.is_worth_a_walk(rows, target.multiprocessors)
        if row.vectors < MIN_VECTORS or blocks_of_row(row, target.max_cluster) != 1:
            return None
        limit = rows_at_once(row, 1, target.multiprocessors)
    most = min(limit // samples.count, MAX_SHORT_REDUCTION, samples.rows // side)
    allowed = (n for n in range(most, 0, -1) if samples.rows % (n * side) == 0)
    parts = next(allowed, None)
    if parts is None or not is_large or not is_busy(samples.count * parts, target.multiprocessors):
        return None
    turns = samples.images * samples.rows // (parts * side)
    return parts if turns >= MIN_TURNS else None


def _grouped(tv: TensorView, source: Value, samples: _Samples, parts: int) -> TensorView:
    """`tv` of what each part of a sample's rows adds up to in all images."""
    sizes = [samples.images, samples.count, parts, samples.rows // parts, samples.columns]
    pieces = reshaped(widened(tv, source), sizes)
    mine = call("permute", pieces, dims=(1, 2, 0, 3, 4))
    walked = produce(tv.expr.op, [mine], {"dims": (2, 3), WALKED: samples.plane[0]})
    made = reduced(tv, walked, (1,))
    return reshaped(made, tv.shape)
