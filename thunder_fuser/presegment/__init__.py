"""Rewrites of a fusion before it is cut, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from thunder_fuser.ir.fusion import Fusion

PASSES: tuple[Callable[[Fusion], Fusion], ...] = ()


def tidy(fusion: Fusion) -> Fusion:
    """`fusion` after every pass."""
    for rewrite in PASSES:
        fusion = rewrite(fusion)
    return fusion
