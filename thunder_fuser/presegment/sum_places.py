"""Sum a batch place by place first, where the places of a channel fill no vectors.

    T1: f32[r256, i512, r7, r7] = sum(T0, dims=[0, 2, 3])
        =>   T2: f32[i256, i25088] = reshape(T0);  T3: f32[i25088] = sum(T2, dims=[0])
             T4: f32[i512, i49] = reshape(T3);     T1: f32[i512] = sum(T4, dims=[1])

A batch norm sums each channel over pieces of 49 elements, which no vector fits; down its columns
the batch is whole vectors. What is left to sum is one element for each place of an image, also of
squared deviations (`parts.py`). Larger planes are worth the launch; of smaller ones the blocks of a
cluster may hold each channel, and read it once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import gcd, prod

from thunder_fuser.analysis.layout import MAX_ALIGNMENT, WIDE_ENOUGH, Layout
from thunder_fuser.analysis.reductions import is_along, is_reduction, runs_of
from thunder_fuser.analysis.shared_rows import Test
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.pack_rows import (
    lies_dense,
    plane_below,
)
from thunder_fuser.presegment.parts import Parts, has_parts
from thunder_fuser.presegment.stages import reshaped, widened
from thunder_fuser.presegment.store_first import store_first
from thunder_fuser.target import Target

MIN_BYTES = 360 * 1024  # read of a plane, per multiprocessor, that are worth a third launch
MIN_BYTES_HELD = 2 * MIN_BYTES  # where it takes the place of one that reads the plane once
MIN_IMAGES = 32  # fewer leave as much to sum as they have places


@dataclass(frozen=True)
class _Batch:
    """So many `images` of `channels` that have so many `places` each."""

    images: int
    channels: int
    places: int

    @property
    def elements(self) -> int:
        return self.images * self.channels * self.places


def by_places(
    fusion: Fusion, layouts: Mapping[TensorView, Layout], target: Target, is_shared: Test
) -> Test:
    """True for reductions of channels that are summed so, of inputs of `fusion` that lie as
    `layouts`, and of planes that nothing else is reduced of: the gradient of a norm of each place
    has its sums beside it. Of others than those that are `is_shared` a cluster holds each
    channel."""
    of_plane: dict[int, list[TensorView]] = {}
    for tv in filter(is_reduction, fusion.tensors):
        of_plane.setdefault(prod(a.size for a in tv.domain.logical), []).append(tv)
    found = {
        elements
        for elements, sums in of_plane.items()
        if _are_worth(sums, elements, layouts, target, is_shared)
    }

    def is_by_places(tv: TensorView) -> bool:
        batch = _batch_of(tv)
        return batch is not None and batch.elements in found

    return is_by_places


def _are_worth(
    sums: Sequence[TensorView],
    elements: int,
    layouts: Mapping[TensorView, Layout],
    target: Target,
    is_shared: Test,
) -> bool:
    """True for the reductions of a plane, all of channels whose places fill no vectors, that read
    enough."""
    batches = [batch for tv in sums if (batch := _batch_of(tv))]
    plane = list(plane_below(sums, elements))
    widths = [t.dtype.itemsize for t in plane if t.definition is None]
    are_alike = len(batches) == len(sums) and len(set(batches)) == 1
    if not (are_alike and widths and all(lies_dense(t, elements, layouts) for t in plane)):
        return False
    lanes = MAX_ALIGNMENT // min(widths)
    is_narrow = gcd(batches[0].places, lanes) * min(widths) < WIDE_ENOUGH
    least = MIN_BYTES if all(map(is_shared, sums)) else MIN_BYTES_HELD
    is_large = elements * sum(widths) >= least * target.multiprocessors
    return is_narrow and is_large and batches[0].images >= MIN_IMAGES


def sum_places(fusion: Fusion, is_by_places: Test) -> Fusion:
    """`fusion` with the reductions that are by places in two stages."""
    found = {tv: batch for tv in fusion.tensors if is_by_places(tv) and (batch := _batch_of(tv))}
    parts = Parts({}, {})

    def reduce(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        batch = found.get(tv)
        return None if batch is None else _summed(tv, widened(tv, inputs[0]), batch, parts)

    return store_first(fusion, reduce)


def _batch_of(tv: TensorView) -> _Batch | None:
    """What a reduction over images and places has of each; None for any other."""
    if not (is_along(tv) and has_parts(tv)):
        return None
    match runs_of(tv):
        case [(images, True), (channels, False), (places, True)]:
            return _Batch(images, channels, places)
    return None


def _summed(tv: TensorView, source: TensorView, batch: _Batch, parts: Parts) -> TensorView:
    shape = batch.channels, batch.places
    return reshaped(parts.whole(tv, source, batch.images, shape, 1), tv.shape)
