"""The four structures that tie fids to IR values.

    T0 = define_tensor([-1, -1])    =>    inputs [0], outputs [1], extents [-1, -2]
    T1 = sum(T0, [1])                     T0's value -> 0, the sum -> 1, i0 -> -1, i1 -> -2

Fids of recorded values count up from 0. Extents of input tensors, which no record defined, count
down from -1 in the order of inputs, then logical dims. Values that a composite built on the way are
hidden: they are numbered after the last recorded fid, in the order they were built.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeAlias

from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import TensorView, Value

FidValue: TypeAlias = "Value | tuple[Scalar, ...]"


@dataclass(frozen=True, eq=False)
class Fids:
    """`inputs`: runtime arguments in order. `draws`: hidden scalars drawn at every run.
    `outputs`: as given to visible `add_output` calls. `results`: the fids of the returned values,
    which differ from `outputs` where an output is given another layout. `extents`: one per logical
    dim of every tensor input. `aliases`: output fid to the fid of the input it is written into.
    `values`: every fid, hidden and negative ones too. `fid_of`: the canonical fid of every value,
    by identity."""

    inputs: tuple[int, ...]
    draws: tuple[int, ...]
    outputs: tuple[int, ...]
    results: tuple[int, ...]
    extents: tuple[int, ...]
    aliases: Mapping[int, int]
    values: Mapping[int, FidValue] = field(repr=False)
    fid_of: Mapping[Value, int] = field(repr=False)

    def canonical(self, fid: int) -> int:
        """The fid under which the runtime value of `fid` is stored.

        Two fids can name one value: `size(T0, 1)` is the extent -2.
        """
        value = self.values[fid]
        return fid if isinstance(value, tuple) else self.fid_of[value]

    def arguments(self, arguments: Sequence[object]) -> dict[int, object]:
        """Canonical fid to runtime value: inputs, drawn numbers, logical sizes of each tensor.

        Raises AssertionError unless there is exactly one value per fid.
        """
        sizes = [size for a in arguments for size in getattr(a, "shape", ())]
        flat, fids = [*arguments, *sizes], [*self.inputs, *self.draws, *self.extents]
        if len(flat) != len(fids):
            raise AssertionError(
                f"{len(arguments)} arguments with {len(sizes)} sizes "
                f"for inputs {list(self.inputs)} and extents {list(self.extents)}"
            )
        return {self.canonical(fid): value for fid, value in zip(fids, flat, strict=True)}


def number_values(
    states: Mapping[int, FidValue], inputs: Sequence[int], built: Iterable[Value]
) -> tuple[dict[int, FidValue], dict[Value, int], tuple[int, ...]]:
    """All values by fid, canonical fids, and the extents' fids.

    `states` maps recorded fids to values, `built` lists every value in the order of building. The
    first fid of a value wins, then each extent overwrites: of two dims that share one extent the
    last wins.
    """
    values, fid_of = dict(states), dict[Value, int]()
    for fid, value in states.items():
        if not isinstance(value, tuple):
            fid_of.setdefault(value, fid)
    for value in built:
        if not isinstance(value, sc.Constant | sc.ScalarExpr) and value not in fid_of:
            fid_of[value] = len(values)
            values[len(values)] = value
    extents: list[int] = []
    for fid in inputs:
        tensor = states[fid]
        for extent in tensor.extents if isinstance(tensor, TensorView) else ():
            extents.append(-len(extents) - 1)
            values[extents[-1]] = extent
            fid_of[extent] = extents[-1]
    return values, fid_of, tuple(extents)


def frozen(mapping: dict[int, int]) -> Mapping[int, int]:
    """A read-only view."""
    return MappingProxyType(mapping)
