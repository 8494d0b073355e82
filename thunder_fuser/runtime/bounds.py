"""Host kernels between red zones: bytes around every tensor that a kernel has no business with.

The kernel runs on copies with room before and after them, twice, with other bytes in the room. What
it wrote there shows as a changed byte; what it read there, if it matters, as another result.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.names import pointer_tensors
from thunder_fuser.runtime.compilation import Launcher
from thunder_fuser.runtime.errors import CheckError
from thunder_fuser.runtime.memory import bytes_at
from thunder_fuser.segment.segment import Segment

ROOM = 4096  # bytes before and after; a multiple of every alignment
FILLS = (0x3C, 0xC3)  # as 16-bit floats about 1 and -4, so that they matter but do not overflow


def guarded(segment: Segment, names: Mapping[TensorView, str], launch: Launcher) -> Launcher:
    """`launch`, which runs on the host, between red zones. Raises CheckError where it leaves its
    tensors."""
    tensors = pointer_tensors(segment)
    sizes = [segment.layouts[tv].span * tv.dtype.itemsize for tv in tensors]
    targets = {store.target for store in segment.stores}

    def run(fill: int, stream: int, values: Sequence[Any]) -> list[torch.Tensor]:
        """The memory of every tensor after a launch between zones of `fill`."""
        rooms = [_room(address, size, fill) for address, size in zip(values, sizes, strict=False)]
        starts = [room.data_ptr() + ROOM + values[k] % 16 for k, room in enumerate(rooms)]
        launch(stream, *starts, *values[len(tensors) :])
        for k, room in enumerate(rooms):
            first = ROOM + values[k] % 16
            _require_untouched(f"{names[tensors[k]]}", room, first, sizes[k], fill)
        return [room[ROOM + values[k] % 16 :][: sizes[k]] for k, room in enumerate(rooms)]

    def checked(stream: int, *values: Any) -> None:
        first, second = (run(fill, stream, values) for fill in FILLS)
        for k, tv in enumerate(tensors):
            if tv in targets and not torch.equal(first[k], second[k]):
                raise CheckError(f"{names[tv]} depends on memory outside of what the segment reads")
        for k, tv in enumerate(tensors):
            if tv in targets and sizes[k]:
                bytes_at(values[k], sizes[k]).copy_(first[k])

    return checked


def _room(address: int, size: int, fill: int) -> torch.Tensor:
    """A copy of memory with room around it, at the same alignment."""
    room = torch.full((2 * ROOM + size + 16,), fill, dtype=torch.uint8, device="cpu")
    if size:
        room[ROOM + address % 16 :][:size] = bytes_at(address, size)
    return room


def _require_untouched(what: str, room: torch.Tensor, first: int, size: int, fill: int) -> None:
    for name, zone, start in (
        ("before", room[:first], -first),
        ("after", room[first + size :], size),
    ):
        changed = (zone != fill).nonzero()
        if len(changed):
            position = start + int(changed[0])
            raise CheckError(
                f"{what}: byte {position} was written, {name} a tensor of {size} bytes"
            )
