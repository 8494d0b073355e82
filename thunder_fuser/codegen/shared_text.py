"""The dynamic shared memory of a block as C++ text: arrays that lie one behind another in it."""

from __future__ import annotations

from collections.abc import Iterable

from thunder_fuser.analysis.layout import MAX_ALIGNMENT
from thunder_fuser.kernel.statements import VectorAccess

SHARED = "TF_DYNAMIC_SHARED(unsigned char, shared);"
LINES = "TF_SHARED_LINES(unsigned char, shared);"  # which begins at a whole line


def arrays_in_shared(arrays: Iterable[tuple[str, str, int]], all_of_it: str = SHARED) -> list[str]:
    """Pointers to arrays of a name, a type of elements and a size in bytes each, behind which the
    next one is aligned."""
    lines, start = [all_of_it], 0
    for name, kind, size in arrays:
        place = f"shared + {start}" if start else "shared"
        lines.append(f"{kind}* const {name} = reinterpret_cast<{kind}*>({place});")
        start += size
    return lines


def run_bytes(access: VectorAccess) -> int:
    """Of one access to a square or a strip, whose runs are aligned."""
    return min(access.length * access.dtype.itemsize, MAX_ALIGNMENT)
