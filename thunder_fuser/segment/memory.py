"""What lies in memory between the kernels of a region, and at which depth it is written.

T2 = add(T0, T1)             stored by the kernels of its depth, with a layout of its own
T3 = reshape(T0)             a view of what is there already: no kernel writes it
T4 = full(1.0)               never: every reader writes the literal
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import gcd

from thunder_fuser.analysis.layout import Layout, output_layout
from thunder_fuser.analysis.views import View, follow, storage_of, view_of
from thunder_fuser.ir.fusion import Fusion, Write
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.depth import Depths


@dataclass
class Memory:
    """`values` can be read as leaves, `stored` are those that the kernels of each depth write, and
    `views` share the storage of others. `constants` are in no memory."""

    depth: Depths
    constants: frozenset[TensorView]
    layouts: dict[TensorView, Layout]
    values: dict[TensorView, None]
    stored: dict[int, dict[TensorView, None]] = field(default_factory=dict)
    views: dict[TensorView, View] = field(default_factory=dict)

    @property
    def fusion(self) -> Fusion:
        return self.depth.fusion

    @cached_property
    def targets(self) -> frozenset[TensorView]:
        """What is written in place."""
        return frozenset(w.target for w in self.fusion.writes)

    def keep(self, tv: TensorView) -> None:
        """Have `tv` in memory: as a view of something there, else written by its segment. What is
        read out of an in-place target stays an index map: its readers run before the write."""
        if tv in self.values or tv in self.constants:
            return
        chain = follow(tv, lambda t: t in self.values)
        if chain is not None and chain.root in self.values:
            if chain.root in self.targets:
                return
            view = view_of(tv, chain, self.layouts[chain.root])
            if view is not None:
                self._show(tv, view)
                return
        self.materialise(tv)

    def _show(self, tv: TensorView, view: View) -> None:
        """Have `tv` share the storage of another value."""
        root = self.layouts[view.root]
        alignment = gcd(root.alignment, view.offset * tv.dtype.itemsize) or root.alignment
        self.layouts[tv] = Layout(view.shape, view.strides, alignment)
        self.views[tv], self.values[tv] = view, None

    def materialise(self, tv: TensorView) -> None:
        """Have `tv` written by the kernels of its depth."""
        self.layouts[tv] = output_layout(tv)
        if tv not in self.constants:  # readers write the literal
            self.values[tv] = None
        self.stored.setdefault(self.depth[tv], {})[tv] = None

    def write(self, write: Write) -> None:
        """Have kernels at the depth of a value that is written in place."""
        self.layouts.setdefault(write.value, output_layout(write.value))
        self.stored.setdefault(self.depth[write.value], {})

    def writes(self, depth: int) -> list[Write]:
        """The writes in place of what is computed at one depth."""
        return [w for w in self.fusion.writes if self.depth[w.value] == depth]

    def made(self, depth: int) -> list[TensorView]:
        """What the kernels of one depth are for."""
        return [*self.stored[depth], *(w.value for w in self.writes(depth))]

    def storage(self, tv: TensorView) -> TensorView:
        """The tensor whose storage `tv` lies in."""
        return storage_of(tv, self.views)
