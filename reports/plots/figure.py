"""Figures as SVG that can stand in a page: text stays text, ink takes the page's colour.

A figure is a panel as wide as a phone; a wide screen shows several beside each other. So no text is
ever scaled below its size here.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

import matplotlib as mpl
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.backends.backend_svg import FigureCanvasSVG
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

Handles: TypeAlias = Sequence[Artist]  # what a legend shows

WIDTH = 3.7  # inches: 266 pt, 355 px of a phone's 390
LEGEND_COLUMNS = 3
FONTS = "system-ui, 'DejaVu Sans', sans-serif"
FEW_DECADES = 100  # of a logarithmic axis, as a factor
INK = "#010203"  # stands for the colour of the page's text
PAPER = "#fdfcfb"  # for that of the page, around what lies on other ink
_STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 7.5,
    "axes.titlesize": 8.5,
    "axes.titleweight": "bold",
    "figure.titlesize": 8.5,
    "figure.titleweight": "bold",
    "figure.labelsize": 7.5,
    "axes.titlelocation": "left",
    "legend.fontsize": 7.0,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "legend.columnspacing": 1.2,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.linewidth": 0.6,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.linewidth": 0.4,
    "grid.alpha": 0.25,
    "lines.linewidth": 1.2,
    "lines.markersize": 4.0,
    "hatch.linewidth": 0.6,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK
    ),
    **dict.fromkeys(("grid.color", "hatch.color"), INK),
}
_THEME = (
    "<style>svg{color:#1c1c1c;--page:#fff}"
    "@media (prefers-color-scheme:dark){svg{color:#e4e4e4;--page:#161616}}</style>"
)
_ROOT = 'role="img" aria-label="{}" style="stroke-linejoin:round"'
_REFERENCE = r'(?:(?<=url\(#)|(?<=href="#))[^")]+'


@dataclass(frozen=True)
class Figure:
    """`name` is unique in a page; `alt` says what is to be seen, for those who cannot; `svg` is an
    element without the XML prologue."""

    name: str
    alt: str
    svg: str

    @property
    def file(self) -> str:
        """The text of a file of its own, which is legible on light and dark pages."""
        head, mark, rest = self.svg.partition(">")
        return f"{head}{mark}{_THEME}{rest}\n"


def draw(
    name: str,
    alt: str,
    height: float,
    paint: Callable[[Sequence[Axes]], Handles],
    panels: int = 1,
    columns: int = LEGEND_COLUMNS,
) -> Figure:
    """A figure of `panels` axes above each other, `height` inches in all with the legend below of
    what `paint` returns. Equal arguments give equal text."""
    with mpl.rc_context(_STYLE | {"svg.hashsalt": name}):
        canvas = Canvas(figsize=(WIDTH, height), layout="constrained")
        FigureCanvasSVG(canvas)
        handles = paint(tuple(canvas.subplots(panels, 1, squeeze=False)[:, 0]))
        if handles:
            canvas.legend(handles=list(handles), loc="outside lower left", ncols=columns)
        with io.StringIO() as file:
            canvas.savefig(file, format="svg", transparent=True, metadata={"Date": None})
            return Figure(name, alt, _element(file.getvalue(), name, alt))


def log_ticks(axis: Axis) -> None:
    """In plain digits; at 1, 2 and 5 too, as what is shown may be less than a decade."""
    low, high = axis.get_view_interval()
    steps = (1.0, 2.0, 5.0) if high < FEW_DECADES * low else (1.0,)
    axis.set_major_locator(LogLocator(subs=steps))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.set_minor_locator(NullLocator())


def _element(text: str, name: str, alt: str) -> str:
    """The element alone. Its ids are the figure's own, so that a page can hold several."""
    text = text[text.index("<svg") :].strip()
    text = re.sub(r"<(metadata|style).*?</\1>|<!--.*?-->", "", text, flags=re.DOTALL)
    text = text.replace(INK, "currentColor").replace(PAPER, "var(--page)")
    text = re.sub(r"'DejaVu Sans'[^;\"]*sans-serif", FONTS, text)
    text = re.sub(r"<[^>]*>", _rounded, text)
    used = set(re.findall(_REFERENCE, text))
    text = re.sub(
        r' id="(.*?)"', lambda one: f' id="{name}-{one[1]}"' if one[1] in used else "", text
    )
    text = re.sub(_REFERENCE, rf"{name}-\g<0>", text)
    return re.sub(r"\s*\n\s*", " ", f"<svg {_ROOT.format(escape(alt))}{text[4:]}")


def _rounded(tag: re.Match[str]) -> str:
    """Coordinates to a hundredth of a point; texts stand between tags."""
    return re.sub(r"\d+\.\d{3,}", lambda found: f"{float(found[0]):.2f}", tag[0])
