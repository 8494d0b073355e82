"""Rewrites of a fusion before it is cut, in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable

from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.presegment.fold_flips import fold_flips
from thunder_fuser.presegment.fold_powers import fold_powers
from thunder_fuser.presegment.stop_gathers import stop_gathers

PASSES: tuple[Callable[[Fusion], Fusion], ...] = (fold_powers, fold_flips, stop_gathers)


def tidy(fusion: Fusion) -> Fusion:
    """`fusion` after every pass."""
    for rewrite in PASSES:
        fusion = rewrite(fusion)
    return fusion
