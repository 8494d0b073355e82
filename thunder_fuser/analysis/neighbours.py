"""How far from its own place an element of a tensor reads others.

T3[i63, i64] = sub(T0[1:], T0[:-1])       of T0: [64, 64], moves (0, 0) and (1, 0)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from thunder_fuser.analysis.access import Index, demand
from thunder_fuser.analysis.digits import atom
from thunder_fuser.ir.domain import IterDomain
from thunder_fuser.ir.fusion import topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops import Family

_ELEMENTWISE = (Family.POINTWISE, Family.VIEW, Family.PAD, Family.CAT, Family.FULL, Family.IOTA)


@dataclass(frozen=True)
class Reads:
    """What an element reads of a tensor: how far each is from its own place, by dim of the element.
    `sizes` are those of the tensor along these dims, None where it repeats."""

    source: TensorView
    sizes: tuple[int | None, ...]
    moves: frozenset[tuple[int, ...]]

    def along(self, dim: int) -> tuple[int, int]:
        """The least and the greatest move along a dim."""
        moves = [move[dim] for move in self.moves]
        return min(moves), max(moves)


def reads_of(tv: TensorView) -> tuple[Reads, ...] | None:
    """What an element of `tv` is made of, element by element. None where something is read at no
    fixed distance, as behind a reshape."""
    made = tuple(topological([tv]))
    leaves = {t for t in made if t.definition is None or t.family not in _ELEMENTWISE}
    found: dict[tuple[TensorView, tuple[int | None, ...]], set[tuple[int, ...]]] = {}
    for leaf, index in demand([(tv, tuple(map(atom, tv.logical)))], leaves).leaves:
        read = _read(leaf, index, tv.logical)
        if read is None:
            return None
        found.setdefault((leaf, read[0]), set()).add(read[1])
    return tuple(Reads(*key, frozenset(moves)) for key, moves in found.items())


def _read(
    leaf: TensorView, index: Index, axes: Sequence[IterDomain]
) -> tuple[tuple[int | None, ...], tuple[int, ...]] | None:
    """The sizes of a leaf by axis, and how far from these `index` is."""
    sizes, moves = dict[IterDomain, int](), dict[IterDomain, int]()
    for form, size in zip(index, leaf.shape, strict=True):
        if not form.bases:
            continue
        axis = next((a for a in axes if form.terms == atom(a).terms), None)
        if axis is None or axis in sizes:
            return None
        sizes[axis], moves[axis] = size, form.constant
    return tuple(map(sizes.get, axes)), tuple(moves.get(a, 0) for a in axes)
