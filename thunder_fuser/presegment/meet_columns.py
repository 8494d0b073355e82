"""Mark sums over the columns of a sample of what these come to, for elements that need both.

    T1: f32[i64, i384] = sum(T0: f32[i64, i3136, i384], dims=[1]);  T2: f32[i64] = sum(T1, dims=[1])
        =>   T2 = sum(T1, dims=[1], met=384)

The response norm of ConvNeXt V2: each channel by its size beside the mean size of a sample's
channels. Blocks that keep all columns of a sample know both, and read it once
(`schedule/met_columns.py`). Not where no cluster holds one, or samples are few.
"""

from __future__ import annotations

from math import gcd, prod

from thunder_fuser.analysis.kept_rows import PACKED_BYTES, KeptRows
from thunder_fuser.analysis.layout import MAX_ALIGNMENT, registers_of
from thunder_fuser.analysis.met_columns import (
    Sample,
    met_columns_held,
    sample_of_sum,
    samples_met,
)
from thunder_fuser.analysis.reductions import (
    MET,
    inputs_of_size,
    is_long,
    mark_of,
    state_bytes,
)
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.presegment.stages import marked
from thunder_fuser.target import REGISTER_BYTES, Target


def meet_columns(fusion: Fusion, target: Target) -> Fusion:
    """`fusion` with such sums marked. Inputs stay the same tensors."""
    found = (sample_of_sum(tv) for tv in fusion.tensors)
    samples = dict.fromkeys(sample for sample in found if sample is not None)
    columns = {tv: sample.columns for sample in samples for tv in _meeting(fusion, sample, target)}

    def rule(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
        return marked(tv, inputs, **{MET: columns[tv]}) if tv in columns else None

    return rewrite(fusion, rule) if columns else fusion


def _meeting(fusion: Fusion, sample: Sample, target: Target) -> list[TensorView]:
    """The sums over the columns of each sample that elements of the plane wait for, if these wait
    for nothing long but such and the sums of columns, and blocks hold all of it."""
    plane = sample.count * sample.rows * sample.columns
    stored = [tv for tv in fusion.roots if prod(tv.shape) == plane]
    waited = [tv for tv in topological(stored) if is_long(tv)]
    along = [tv for tv in waited if sample_of_sum(tv) == sample]
    met = [tv for tv in waited if samples_met(tv) == (sample.count, sample.columns)]
    if not met or len(along) + len(met) < len(waited) or any(map(mark_of, waited)):
        return []
    if any(state_bytes(tv) > tv.dtype.compute_type.itemsize for tv in waited):
        return []
    if any(state_bytes(tv) < REGISTER_BYTES for tv in met):
        return []  # blocks send each other words
    if set(topological(met)).isdisjoint(along):
        return []
    sizes = [tv.dtype.itemsize for tv in inputs_of_size(fusion, plane)]
    if not sizes or gcd(sample.columns * min(sizes), PACKED_BYTES) < PACKED_BYTES:
        return []
    lanes = gcd(sample.columns, MAX_ALIGNMENT // min(sizes))
    states = sum(map(state_bytes, along)) * (lanes + 1)
    known = registers_of((tv.dtype.compute_type.itemsize for tv in waited), lanes)
    column = KeptRows(sample.rows, registers_of(sizes, lanes), 0, known)
    vectors, width = sample.columns // lanes, lanes * min(sizes)
    held = met_columns_held(column, vectors, width, states, target.max_cluster)
    is_busy = held is not None and sample.count * held.blocks >= target.multiprocessors
    return met if is_busy else []
