"""The dynamic shared memory of a block as C++ text: arrays that lie one behind another in it."""

from __future__ import annotations

from collections.abc import Iterable

SHARED = "TF_DYNAMIC_SHARED(unsigned char, shared);"


def arrays_in_shared(arrays: Iterable[tuple[str, str, int]]) -> list[str]:
    """Pointers to arrays of a name, a type of elements and a size in bytes each, behind which the
    next one is aligned."""
    lines, start = [SHARED], 0
    for name, kind, size in arrays:
        place = f"shared + {start}" if start else "shared"
        lines.append(f"{kind}* const {name} = reinterpret_cast<{kind}*>({place});")
        start += size
    return lines
