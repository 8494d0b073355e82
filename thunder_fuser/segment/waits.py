"""What reductions wait for that no kernel has beside others: tried freely first, then less so.

columns that a block keeps until all that needs their sums is computed     else read again
rows of scattered sums, and sums down columns of what follows from rows    else a launch each
rows that blocks have a piece each of                                      else torch's
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from thunder_fuser.analysis.reductions import (
    is_down,
    is_grouped,
    is_long,
    is_ordering,
    is_reduction,
    is_scattered,
    plane_of,
    row_shape,
)
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.kinds import Test
from thunder_fuser.segment.segment import Segment


@dataclass(frozen=True)
class Waits:
    """Torch runs what is `opaque`. Nothing that needs results of `apart` rows whole is computed in
    the kernel that reduces them. What is `late` is not reduced where the rows of its terms are. A
    block keeps columns that are `kept` until their sums are known."""

    opaque: frozenset[TensorView]
    apart: frozenset[TensorView]
    late: frozenset[TensorView]
    kept: frozenset[TensorView]

    def after(self, refused: Sequence[Segment]) -> Waits | None:
        """More of them, for segments that no template holds; None where nothing is left to try."""
        found = frozenset(tv for segment in refused for tv in segment.long)
        if not found:
            return None
        if not self.kept.isdisjoint(found):  # each kernel reads these columns anew
            return replace(self, kept=self.kept - found)
        # What needs them whole, or has sums down its columns, may be too much for one kernel.
        scattered = frozenset(filter(is_scattered, found)) - self.apart
        behind = frozenset(tv for segment in refused for tv in _behind_rows(segment)) - self.late
        # So may other rows, of what reads their results: then it waits for another launch.
        rest = frozenset() if scattered or behind else found
        return replace(
            self,
            opaque=self.opaque | (rest & self.apart),
            apart=self.apart | scattered | rest,
            late=self.late | behind,
        )


def waits_of(fusion: Fusion, is_shared: Test) -> Waits:
    """What is tried first. Several blocks share each row of a reduction that `is_shared`."""

    def where(test: Test) -> frozenset[TensorView]:
        return frozenset(filter(test, fusion.tensors))

    return Waits(where(_is_torchs), where(is_shared), frozenset(), where(is_down))


def why_torch(tv: TensorView) -> str:
    """Why torch runs `tv`."""
    if is_ordering(tv):
        return f"{tv.expr.op.name} is done by torch"
    return "no template holds a reduction this long yet"


def _is_torchs(tv: TensorView) -> bool:
    """True for what no template can ever hold."""
    return is_long(tv) and plane_of(tv) is None and not (is_grouped(tv) or is_ordering(tv))


def _behind_rows(segment: Segment) -> list[TensorView]:
    """Reductions over several rows, of terms that need reductions along them in the same segment:
    sums down columns, and short ones."""
    rows = {tv for tv in segment.long if row_shape(tv) is not None}
    others = (tv for tv in segment.made if is_reduction(tv) and tv not in rows)
    return [tv for tv in others if not rows.isdisjoint(topological([tv], segment.leaves))]
