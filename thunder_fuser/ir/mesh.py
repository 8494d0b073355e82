"""Device meshes: devices arranged in a box, as in `torch.distributed.device_mesh.DeviceMesh`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import prod

from thunder_fuser.ir.domain import ParallelType

# The last mesh dim varies fastest and is x, as for blocks and threads. Deeper dims have no name of
# their own: a DID axis says which mesh dim it is bound to by its parallel type, so there are three.
MESH_PARALLEL_TYPES = (ParallelType.DIDX, ParallelType.DIDY, ParallelType.DIDZ)


@dataclass(frozen=True)
class DeviceMesh:
    """`shape` counts devices per mesh dim; `devices` are their ranks, row-major, by default
    0, 1, 2, ...; `names` are optional, one per dim. Equal meshes are equal values.

    Raises ValueError for a dim without devices, a wrong number of ranks or names, a rank twice.
    """

    shape: tuple[int, ...]
    devices: tuple[int, ...] = ()
    names: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.shape or any(d < 1 for d in self.shape):
            raise ValueError(f"mesh shape {list(self.shape)}: every dim needs at least one device")
        if not self.devices:
            object.__setattr__(self, "devices", tuple(range(prod(self.shape))))
        if len(self.devices) != prod(self.shape):
            raise ValueError(
                f"mesh shape {list(self.shape)} holds {prod(self.shape)} devices, "
                f"got {len(self.devices)} ranks"
            )
        if len(set(self.devices)) != len(self.devices):
            raise ValueError(f"mesh of ranks {list(self.devices)} names a device twice")
        if self.names and len(set(self.names)) != len(self.shape):
            raise ValueError(
                f"mesh shape {list(self.shape)} needs {len(self.shape)} different names, "
                f"got {list(self.names)}"
            )

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        return len(self.devices)

    @cached_property
    def coordinates(self) -> tuple[tuple[int, ...], ...]:
        """The coordinate of each device, in the order of `devices`."""
        return tuple(product(*(range(d) for d in self.shape)))

    def parallel_type(self, dim: int) -> ParallelType:
        """The parallel type of mesh dim `dim`: the last one is DIDx. Raises ValueError beyond the
        third from the right."""
        position = self.ndim - 1 - dim
        if not 0 <= position < len(MESH_PARALLEL_TYPES):
            raise ValueError(
                f"dim {dim} of a mesh of rank {self.ndim} has no parallel type: loop domains name "
                f"the last {len(MESH_PARALLEL_TYPES)} mesh dims"
            )
        return MESH_PARALLEL_TYPES[position]

    def dim_name(self, dim: int) -> str:
        return self.names[dim] if self.names else str(dim)

    def __str__(self) -> str:
        shape: Sequence[object] = self.shape
        if self.names:
            shape = [f"{n}={d}" for n, d in zip(self.names, self.shape, strict=True)]
        text = f"mesh[{', '.join(map(str, shape))}]"
        if self.devices != tuple(range(self.size)):
            text += f" of {list(self.devices)}"
        return text
