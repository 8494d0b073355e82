"""What launches of their own make of tensors in memory, and what must be in memory for that.

T2 = group_order(T1); T1 = where(lt(T0, 0), 9, T0)     T2 is made apart; T1 is indexing: computed
                                                       where it is put in order, never stored
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from thunder_fuser.analysis.elementwise import is_elementwise
from thunder_fuser.analysis.reductions import is_ordering
from thunder_fuser.analysis.views import is_stop
from thunder_fuser.ir.fusion import Fusion, topological
from thunder_fuser.ir.tensor import TensorView


@dataclass(frozen=True, eq=False)
class Apart:
    """Orders of an index, and what is `opaque`: run by torch between kernels."""

    fusion: Fusion
    opaque: frozenset[TensorView]

    def makes(self, tv: TensorView) -> bool:
        """True for what is made of tensors in memory, whatever makes it."""
        return tv in self.opaque or is_ordering(tv)

    def boundaries(self) -> list[TensorView]:
        """What is in memory whatever it costs: stop points, what is made apart, and of what."""
        return [
            tv for tv in self.fusion.tensors if is_stop(tv) or self.makes(tv) or self._feeds(tv)
        ]

    def _feeds(self, tv: TensorView) -> bool:
        return tv not in self.indexing and any(map(self.makes, self.fusion.uses[tv]))

    @cached_property
    def indexing(self) -> frozenset[TensorView]:
        """What kernels compute where they put it in order, and all between it and memory. Torch
        has it in memory."""
        made = filter(self.makes, self.fusion.tensors)
        read = {tv: tv.definition.tensors for tv in made if tv.definition is not None}
        of_torch = {p for tv in read if tv in self.opaque for p in read[tv]}
        found = [p for tv in read for p in read[tv] if p not in of_torch and is_elementwise(p)]
        return frozenset(tv for tv in topological(found) if tv.definition is not None)
