"""How an executor looks, the same in every plot: a colour and a marker.

Colours are those of Okabe and Ito, which people with colour-blindness can tell apart, in shades
that show on light and dark pages; markers tell them apart in grey.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.lines import Line2D

from reports.columns import OURS


@dataclass(frozen=True)
class Look:
    """A colour as #rrggbb and a marker of matplotlib."""

    colour: str
    marker: str


_KNOWN = {
    OURS: Look("#d55e00", "o"),
    "inductor": Look("#2a7ab9", "s"),
    "inductor_tuned": Look("#56b4e9", "D"),
    "nvfuser": Look("#009e73", "^"),
    "torchcompile_cat": Look("#cc79a7", "v"),
    "liger": Look("#e69f00", "P"),
    "eager": Look("#8c8c8c", "X"),
}
# Those that nobody foresaw share one colour, apart from all others; markers tell them apart.
_OTHER_COLOUR, _OTHER_MARKERS = "#7a5ac8", "<>*hd8p"


def look(executor: str) -> Look:
    """Equal names look equal in every report."""
    if executor in _KNOWN:
        return _KNOWN[executor]
    return Look(_OTHER_COLOUR, _OTHER_MARKERS[sum(executor.encode()) % len(_OTHER_MARKERS)])


def legend(executors: Sequence[str], line: str = "") -> tuple[Line2D, ...]:
    """An entry for each, with a `line` as matplotlib calls it."""
    return tuple(
        Line2D(
            [], [], linestyle=line, label=name, color=look(name).colour, marker=look(name).marker
        )
        for name in executors
    )
