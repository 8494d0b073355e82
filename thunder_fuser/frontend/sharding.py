"""Device meshes in a definition: what `define_mesh` and `place` add to the IR, and the plan.

    fd.define_mesh([2]); fd.place(T0, ["S(0)"])     =>     T0: f32[i8] loop [deviceIdx.x i2, i4]

A placement is an outer split of the loop domain whose device axis carries DIDx, DIDy or DIDz. The
definition keeps the placements themselves too: that a tensor is to stay replicated is no split.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from thunder_fuser.analysis.placement import Sharding, check, placement_from
from thunder_fuser.analysis.propagate import ShardingPlan, propagate
from thunder_fuser.analysis.sharding import annotated, check_sizes
from thunder_fuser.frontend.handles import Tensor
from thunder_fuser.frontend.records import DEFINE_MESH, PLACE, Record
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.mesh import DeviceMesh
from thunder_fuser.ir.tensor import TensorView

_T = TypeVar("_T", int, str)


def mesh_record(shape: Sequence[int], names: Sequence[str], devices: Sequence[int]) -> Record:
    """The record of a mesh. Raises TypeError for what is no list of ints or names."""
    shape = _elements("shape", shape, int)
    named, ranks = _elements("names", names, str), _elements("devices", devices, int)
    return Record(DEFINE_MESH, (("shape", shape), ("names", named), ("devices", ranks)))


def place_record(tensor: Tensor, placements: Sequence[object]) -> Record:
    """The record of a placement, in canonical text. Raises TypeError for what is no list, and
    ValueError for what is no placement."""
    if isinstance(placements, str) or not isinstance(placements, Sequence):
        raise TypeError(f"placements is {placements!r}; legal: a list, one entry per mesh dim")
    texts = tuple(str(placement_from(str(p), tensor.ndim)) for p in placements)
    return Record(PLACE, (("placements", texts),), (tensor.ref,))


def sharding_on(mesh: DeviceMesh | None, texts: Sequence[str], rank: int) -> Sharding:
    """The sharding that placements written as texts mean. Raises ValueError without a mesh, and for
    placements that do not match the mesh or the rank."""
    if mesh is None:
        raise ValueError("the definition has no mesh yet: call fd.define_mesh(shape) first")
    sharding = Sharding(mesh, tuple(placement_from(text, rank) for text in texts))
    check(sharding, rank, "placements")
    return sharding


def placed(tv: TensorView, sharding: Sharding, built: Iterable[TensorView]) -> TensorView:
    """`tv` with `sharding` in its loop domain.

    Raises ValueError where one of `built` reads `tv` already, where its extents are symbolic on a
    mesh of several devices, and for shards that cannot be cut alike.
    """
    for reader in built:
        if reader.definition is not None and tv in reader.definition.tensors:
            raise ValueError(
                f"{reader.definition.op.name} has read the tensor already: place it where it is "
                "defined, before anything reads it"
            )
    if sharding.mesh.size > 1:
        check_sizes(sharding, tv.extents, "placements")
    return annotated(tv, sharding)


def plan_on(
    fusion: Fusion, mesh: DeviceMesh | None, shardings: Mapping[TensorView, Sharding]
) -> ShardingPlan | None:
    """Every tensor's sharding and every edge's communication; None without a mesh or on one device.

    Raises ValueError, with the fusion's text, for placements that contradict each other and for
    extents that are not known.
    """
    if mesh is None or mesh.size == 1:
        return None
    try:
        return propagate(fusion, mesh, shardings)
    except ValueError as error:
        raise ValueError(f"{error}\n{fusion}") from None


def _elements(name: str, values: Sequence[_T], wanted: type[_T]) -> tuple[_T, ...]:
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise TypeError(f"{name} is {values!r}; legal: a list")
    for k, value in enumerate(values):
        if not isinstance(value, wanted) or isinstance(value, bool):
            raise TypeError(f"{name}[{k}] is {value!r}; legal: {wanted.__name__}")
    return tuple(values)
