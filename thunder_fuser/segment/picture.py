"""Segments as a graph in the language of Graphviz.

A box is a segment, an ellipse a tensor in memory; a solid edge is a read or a write with its bytes,
a dashed one goes from storage to a view of it.
"""

from __future__ import annotations

from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ir.text import print_type, tensor_names
from thunder_fuser.segment.carry import bytes_of
from thunder_fuser.segment.segmented import SegmentedFusion


def picture(segmented: SegmentedFusion) -> str:
    """The text of a `.dot` file; the same for equal segments."""
    names = tensor_names(segmented.fusion)
    shown: dict[TensorView, None] = {}
    arrows: list[str] = []

    for position, segment in enumerate(segmented.segments):
        for tv in segment.inputs:
            shown[tv] = None
            arrows.append(f'{names[tv]} -> S{position} [label="{bytes_of(tv)} bytes"];')
        for store in segment.stores:
            shown[store.target] = None
            note = " in place" if store.is_in_place else ""
            label = f"{bytes_of(store.target)} bytes{note}"
            arrows.append(f'S{position} -> {names[store.target]} [label="{label}"];')
    for tv, view in segmented.views.items():
        shown.update({view.root: None, tv: None})
        arrows.append(f'{names[view.root]} -> {names[tv]} [style=dashed, label="view"];')
    boxes = [
        f'S{position} [shape=box, label="segment {position}\\n'
        f'{"torch" if segment.is_opaque else "kernel"}: {_quoted(reason)}"];'
        for position, (segment, reason) in enumerate(
            zip(segmented.segments, segmented.reasons, strict=True)
        )
    ]
    returned = set(segmented.fusion.outputs)
    for tv in shown:
        emphasis = ", peripheries=2" if tv in returned else ""
        boxes.append(f'{names[tv]} [label="{names[tv]}: {_quoted(print_type(tv))}"{emphasis}];')
    return "\n".join(["digraph segments {", *(f"  {line}" for line in [*boxes, *arrows]), "}", ""])


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')
