"""Kernels whose text differs in integer literals only.

    literals seen: (64, 72, 8), (128, 136, 8), (256, 264, 8)   with two static kernels

    (64, 72, 8)    a kernel of its own
    (128, 136, 8)  a kernel of its own
    (256, 264, 8)  a kernel of a parameter n for its literals 0 and 1; it serves all (n, n + 8, 8)

The first members know all their numbers, which makes the fastest code. When more come, the
literals that have ever been seen to change become parameters, so a dimension that keeps changing
costs `static_kernels` + 1 compilations. Counts of blocks and threads, and hints, such as whether a
store is too large for the cache, are lifted with the others even if they were equal so far: at some
size they change. Members that differ in hints alone count as one: a contest between them is no
change of shape.

Literals that always changed by the same amount share a parameter, but for counts. Most of a
kernel's are one extent or one stride over and over, and a compiler that is not told so divides by
it anew, computes every address from the start, and tests every hint. A member in which they differ
makes a parameter of each, which is one compilation more.

Sizes may decide more than numbers: whether vectors leave a rest, whether loads are shared. So a
kernel can have a general form whose text does not depend on that. The first members are still
compiled as they are; their family is that of their general forms, which the others are lifted from.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from threading import Lock

from thunder_fuser.kernel.source import Lifting, Source, is_wide
from thunder_fuser.target import Target


@dataclass
class Kin:
    """Kernels that may be a family in their general form, which is not made before there are more
    of them than may be static. Safe for several threads."""

    _known: dict[object, Source] = field(default_factory=dict)
    _is_open: bool = False
    _lock: Lock = field(default_factory=Lock)

    def meet(self, source: Source, static_kernels: int) -> tuple[Source, ...] | None:
        """None for a kernel of its own. Else those that were, once: their families have to know of
        them."""
        with self._lock:
            if self._is_open:
                return ()
            member = (source.fragments, source.literals)
            if member in self._known or len(self._known) < static_kernels:
                self._known[member] = source
                return None
            self._is_open = True
            found, self._known = tuple(self._known.values()), {}
            return found


def kin_key(source: Source, target: Target, flags: tuple[str, ...]) -> object:
    """What kernels with the same general form share at least."""
    return source.parameters, source.threads, target, flags


def family_key(source: Source, target: Target, flags: tuple[str, ...]) -> object:
    """What the members of a family share: everything but their literals and grids."""
    digest = hashlib.sha256("\0".join(source.fragments).encode()).digest()
    return digest, source.parameters, source.threads, target, flags


@dataclass
class Family:
    """The literals that members were seen with. Safe for several threads."""

    first: tuple[int, ...]
    hints: frozenset[int] = frozenset()
    counts: frozenset[int] = frozenset()
    is_lifted: bool = False
    _static: set[tuple[int, ...]] = field(default_factory=set)
    _changing: set[int] = field(default_factory=set)
    _shared: tuple[int, ...] = ()  # of each literal, the first that always changed as it did
    _lock: Lock = field(default_factory=Lock)

    def lifting(self, literals: tuple[int, ...], static_kernels: int) -> Lifting:
        """Which literals of this member have to be parameters, and of which each takes its own;
        () for a kernel of its own."""
        with self._lock:
            self._see(literals)
            numbers = tuple(n for k, n in enumerate(literals) if k not in self.hints)
            if numbers in self._static or len(self._static) < static_kernels:
                self._static.add(numbers)
                return ()
            self.is_lifted = True
            lifted = self._changing | self.hints | self.counts
            return tuple((position, self._shared[position]) for position in sorted(lifted))

    def _see(self, literals: tuple[int, ...]) -> None:
        before = self._shared or [self._kind(position) for position in range(len(literals))]
        changes = [(b - a, is_wide(b)) for a, b in zip(self.first, literals, strict=True)]
        self._changing |= {position for position, (by, _) in enumerate(changes) if by}
        alike: dict[object, int] = {}
        self._shared = tuple(
            alike.setdefault(known, position)
            for position, known in enumerate(zip(before, changes, strict=True))
        )

    def _kind(self, position: int) -> object:
        """What may share a parameter. Counts are rounded: they may change alike for some sizes, but
        not for all."""
        return ("count", position) if position in self.counts else position in self.hints
