"""The result of cutting a region: segments in launch order, and every value's place in memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.views import View, storage_of
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ir.text import tensor_names
from thunder_fuser.segment.carry import bytes_of
from thunder_fuser.segment.segment import Segment


@dataclass(frozen=True, eq=False)
class SegmentedFusion:
    """`edges` are values written by one segment and read by another; `views` are values that share
    another value's storage; `reasons` says of each segment why it is not part of the one before."""

    fusion: Fusion
    segments: tuple[Segment, ...]
    views: Mapping[TensorView, View]
    layouts: Mapping[TensorView, Layout]
    reasons: tuple[str, ...]

    @property
    def edges(self) -> tuple[TensorView, ...]:
        """Values that travel through memory between segments, in order of production."""
        read = {self.storage(tv) for s in self.segments for tv in s.inputs}
        written = dict.fromkeys(s.value for seg in self.segments for s in seg.stores)
        return tuple(tv for tv in written if tv in read)

    @property
    def edge_bytes(self) -> int:
        """Bytes written between segments."""
        return sum(map(bytes_of, self.edges))

    def storage(self, tv: TensorView) -> TensorView:
        """The tensor whose storage `tv` lies in."""
        return storage_of(tv, self.views)

    def __str__(self) -> str:
        names = tensor_names(self.fusion)
        lines = []
        for position, (segment, reason) in enumerate(zip(self.segments, self.reasons, strict=True)):
            reads = ", ".join(names[tv] for tv in segment.inputs)
            writes = ", ".join(
                names[s.value] + (f" -> {names[s.target]} in place" if s.is_in_place else "")
                for s in segment.stores
            )
            kind = "torch" if segment.is_opaque else "kernel"
            kind += segment.direction
            lines.append(f"segment {position} ({kind}; {reason}): reads {reads}; writes {writes}")
        for tv, view in self.views.items():
            lines.append(
                f"{names[tv]} is a view of {names[view.root]}: shape {list(view.shape)} "
                f"strides {list(view.strides)} offset {view.offset}"
            )
        lines.append(f"{len(self.edges)} edges, {self.edge_bytes} bytes")
        return "\n".join(lines)
