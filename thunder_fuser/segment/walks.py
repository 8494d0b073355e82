"""What the kernels of each depth walk: of all long reductions of one depth the same."""

from __future__ import annotations

from dataclasses import dataclass, field

from thunder_fuser.analysis.reductions import column_shape, is_grouped, is_picked, plane_beside
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.kinds import Test


@dataclass
class Walks:
    """Per depth the plane that was joined last, and the long reductions. Blocks share the rows of
    one that `is_shared` piece by piece: none of them has what sums down columns walk."""

    is_shared: Test
    planes: dict[int, tuple[int, int] | None] = field(default_factory=dict)
    long: dict[int, set[TensorView]] = field(default_factory=dict)
    _of_depth: dict[int, object] = field(default_factory=dict)
    _downs: dict[int, tuple[int, int]] = field(default_factory=dict)

    def join(self, tv: TensorView, depth: int) -> int:
        """The first depth from there on whose kernel can walk for a long reduction as well."""
        while not self._agrees(tv, depth):
            depth += 1
        self.planes[depth] = plane_beside(tv)
        self.long.setdefault(depth, set()).add(tv)
        return depth

    def _agrees(self, tv: TensorView, depth: int) -> bool:
        walk, down = (_walk_of(tv), self.is_shared(tv)), column_shape(tv)
        if self._of_depth.setdefault(depth, walk) != walk:
            return False
        return down is None or self._downs.setdefault(depth, down) == down


def _walk_of(tv: TensorView) -> object:
    """What the reductions of one kernel have in common: a plane, or an order and its groups. Sums
    of what each element has an index for are alone."""
    if is_picked(tv):
        return tv
    if is_grouped(tv):
        return tv.shape, *tv.expr.tensors[1:]
    return plane_beside(tv)
