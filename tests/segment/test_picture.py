"""The graph of segments, as Graphviz text."""

from __future__ import annotations

from functools import partial

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.schedule.map import reject
from thunder_fuser.schedule.parameters import map_parameters
from thunder_fuser.segment.cut import cut
from thunder_fuser.segment.picture import picture
from thunder_fuser.target import HOST


def test_segments_tensors_bytes_and_views_are_drawn() -> None:
    x = tensor(DataType.Float, 3, 5)
    y = call("segment_set", call("exp", x))
    z = call("mul", y, y)
    flipped = call("permute", z, dims=(1, 0))
    fusion = Fusion((x,), (z, flipped))
    refuse = partial(reject, parameters=map_parameters(HOST)[0])
    text = picture(cut(fusion, {x: Layout((3, 5), (5, 1))}, refuse))
    for line in (
        'S0 [shape=box, label="segment 0\\nkernel: the region"];',
        'S0 -> T2 [label="60 bytes"];',
        'T2 -> S1 [label="60 bytes"];',
        'T0 -> S0 [label="60 bytes"];',
        'T3 [label="T3: f32[i3, i5]", peripheries=2];',
        'T3 -> T4 [style=dashed, label="view"];',
    ):
        assert f"  {line}\n" in text
    assert text.startswith("digraph segments {\n")
    assert text.endswith("}\n")
