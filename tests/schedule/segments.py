"""Segments without a cut: what a schedule or a lowering gets, made of tensors and their layouts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product

from thunder_fuser.analysis.layout import Layout, output_layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import tensor
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import map
from thunder_fuser.schedule.classes import IterationClass, classify
from thunder_fuser.schedule.nest import refine
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.segment.segment import Segment, Store


def floats(*extents: int) -> TensorView:
    return tensor(DataType.Float, *extents)


def halves(*extents: int) -> TensorView:
    return tensor(DataType.BFloat16, *extents)


def integers(*extents: int) -> TensorView:
    return tensor(DataType.Int, *extents)


def segment_of(
    inputs: Sequence[TensorView],
    *outputs: TensorView,
    lies: Mapping[TensorView, Layout] | None = None,
    writes: Sequence[tuple[TensorView, TensorView]] = (),
) -> Segment:
    """The segment that reads `inputs` and stores `outputs`, and of each pair of `writes` the first
    into the second. Tensors are dense and aligned but for those that `lies` names."""
    stores = [*(Store(tv, tv) for tv in outputs), *(Store(v, t) for v, t in writes)]
    layouts = {tv: output_layout(tv) for tv in (*inputs, *outputs)} | dict(lies or {})
    return Segment(tuple(stores), frozenset(inputs), layouts)


def classes_of(segment: Segment, owned: int = 8, busy: int = 1) -> tuple[IterationClass, ...]:
    """The iteration classes of the nests of every store."""
    nests = [nest for store in segment.stores for nest in refine(segment, store)]
    return classify(segment, nests, MapParameters(owned=owned, busy=busy))


def classes(segment: Segment, parameters: MapParameters | None = None) -> str:
    """The classes of the schedule of a map, without the head."""
    made = str(map.schedule(segment, parameters or MapParameters()))
    return "\n".join(line[2:] for line in made.splitlines()[1:])


def points(axes: Sequence[IterDomain]) -> Iterator[dict[IterDomain, int]]:
    """Every point of `axes`."""
    for point in product(*(range(a.size) for a in axes)):
        yield dict(zip(axes, point, strict=True))
