"""Boxes in columns, joined by wires, as SVG.

A section is a list of bands, one below the other; a band has a box or several in each of its
columns. The rows of a box are lines of text, and a row may have ends of wires at its left and right
edge. Wires run in the gutters: to the left of the first column over the whole section, between two
columns inside of a band. Ends of the same name in one gutter are one wire:

     +----------+            every wire has a lane of its own, the shorter one nearer to the boxes,
  .--+ makes t1 |            and corners are round; the text of a row says what travels there
  |  +----------+
  '->| reads t1 |
     +----------+
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

LINE = 17  # pixels from row to row
LETTER = 6.9  # pixels of one letter of the 11.5 px font, the widest of the common ones
PADDING = 8
GAP = 12  # between boxes
LANE = 9
RADIUS = 5
MARGIN = 20
HUES = (211, 27, 140, 280, 340, 185, 50, 250)  # of the wires, in turn


@dataclass(frozen=True)
class End:
    """Where a wire ends at a row: `is_out` if the value comes from there."""

    wire: str
    is_out: bool = False
    is_dashed: bool = False


@dataclass(frozen=True)
class Row:
    """A line of text. `kind` is its CSS class: title, note or port."""

    text: str
    kind: str = "port"
    left: End | None = None
    right: End | None = None


@dataclass(frozen=True)
class Box:
    """`kind` is its CSS class: region, outside, segment, view, kernel or edge."""

    kind: str
    rows: tuple[Row, ...]

    @property
    def height(self) -> float:
        return len(self.rows) * LINE + 2 * PADDING

    @property
    def width(self) -> float:
        return max(len(row.text) for row in self.rows) * LETTER + 2 * PADDING


@dataclass(frozen=True)
class Band:
    """Boxes that belong together, those of a column below each other."""

    columns: tuple[tuple[Box, ...], ...]

    @property
    def height(self) -> float:
        return max(
            _shift(k) + sum(box.height + GAP for box in column) - GAP
            for k, column in enumerate(self.columns)
        )


@dataclass(frozen=True)
class Section:
    title: str
    bands: tuple[Band, ...]


@dataclass(frozen=True)
class _Place:
    """An end of a wire at its point on a box; the gutter lies to the left of it or to the right."""

    x: float
    y: float
    is_left: bool
    end: End


_Lanes = dict[str, int]


def svg(title: str, legend: str, sections: Sequence[Section]) -> str:
    """The text of an SVG file, for light and dark pages; the same for the same sections."""
    edges = _edges(sections)
    parts = [
        _text(MARGIN, MARGIN + LINE / 2, title, "head"),
        _text(MARGIN, MARGIN + 1.75 * LINE, legend, "note"),
    ]
    y = float(MARGIN + 4 * LINE)
    for section in sections:
        parts.append(_text(edges[0][0], y, section.title, "section"))
        y += LINE
        ends: list[_Place] = []
        for band in section.bands:
            columns = [list(_places(band, k, edges[k], y)) for k in range(len(band.columns))]
            ends += [place for place in columns[0] if place.is_left]
            for left, right in pairwise(columns):
                between = [p for p in left if not p.is_left] + [p for p in right if p.is_left]
                parts += _wires(between)
            parts += (part for k in range(len(columns)) for part in _boxes(band, k, edges[k], y))
            y += band.height + GAP
        parts += _wires(ends)
        y += 2 * LINE
    width = MARGIN + max(edges[-1][1], MARGIN + len(legend) * LETTER)
    return "\n".join([_open(title, width, y), *parts, "</svg>", ""])


def _edges(sections: Sequence[Section]) -> list[tuple[float, float]]:
    """The left and right edge of each column."""
    bands = [band for section in sections for band in section.bands]
    lanes = [_lane_count([_flat(section.bands, 0, 0)]) for section in sections]
    edges: list[tuple[float, float]] = []
    x = float(MARGIN + (max(lanes, default=0) + 2) * LANE)
    for column in range(max((len(band.columns) for band in bands), default=0)):
        boxes = [box for b in bands for box in (b.columns[column : column + 1] or [()])[0]]
        right = x + max((box.width for box in boxes), default=0.0)
        edges.append((x, right))
        between = [[*_flat([b], column, 1), *_flat([b], column + 1, 0)] for b in bands]
        x = right + (_lane_count(between) + 3) * LANE
    return edges or [(MARGIN, MARGIN)]


def _flat(bands: Sequence[Band], column: int, side: int) -> list[_Place]:
    """The ends at one side of a column, with their heights alone."""
    found: list[_Place] = []
    y = 0.0
    for band in bands:
        if column < len(band.columns):
            places = _places(band, column, (0.0, 0.0), y)
            found += [place for place in places if place.is_left == (side == 0)]
        y += band.height + GAP
    return found


def _lane_count(gutters: Sequence[Sequence[_Place]]) -> int:
    return max((max(_lanes(ends).values(), default=-1) + 1 for ends in gutters), default=0)


def _places(band: Band, column: int, edges: tuple[float, float], y: float) -> Iterator[_Place]:
    y += _shift(column)
    for box in band.columns[column]:
        for position, row in enumerate(box.rows):
            middle = y + PADDING + (position + 0.5) * LINE
            if row.left is not None:
                yield _Place(edges[0], middle, True, row.left)
            if row.right is not None:
                yield _Place(edges[1], middle, False, row.right)
        y += box.height + GAP


def _shift(column: int) -> float:
    """Rows of the first column lie between those of the others, so that the ends of two wires that
    face each other across a gutter do not run into one line."""
    return LINE / 2 if column else 0.0


def _boxes(band: Band, column: int, edges: tuple[float, float], y: float) -> Iterator[str]:
    left, right = edges
    y += _shift(column)
    for box in band.columns[column]:
        size = f'width="{right - left:.1f}" height="{box.height:.1f}"'
        yield f'<rect class="{box.kind}" x="{left:.1f}" y="{y:.1f}" {size} rx="4"/>'
        for position, row in enumerate(box.rows):
            yield _text(left + PADDING, y + PADDING + (position + 0.75) * LINE, row.text, row.kind)
        y += box.height + GAP


def _wires(places: Sequence[_Place]) -> Iterator[str]:
    """The wires of one gutter."""
    lanes = _lanes(places)
    right_edge = min((p.x for p in places if p.is_left), default=0.0)
    for number, wire in enumerate(lanes):
        ends = [place for place in places if place.end.wire == wire]
        start = next((p for p in ends if p.end.is_out), ends[0])
        lane = right_edge - (lanes[wire] + 1.5) * LANE
        paths = [_path(start, p, lane) for p in ends if p is not start]
        color = f"hsl({HUES[number % len(HUES)]} 55% 50%)"
        yield f'<g class="wire" style="stroke:{color};fill:{color}"><title>{escape(wire)}</title>'
        yield from paths
        yield "</g>"


def _lanes(places: Sequence[_Place]) -> _Lanes:
    """A lane for each wire that joins something, counted from the boxes; wires that share one do
    not meet."""
    spans: dict[str, list[float]] = {}
    for place in places:
        spans.setdefault(place.end.wire, []).append(place.y)
    joined = {wire: (min(ys), max(ys)) for wire, ys in spans.items() if len(ys) > 1}
    taken: list[list[tuple[float, float]]] = []
    lanes: _Lanes = {}
    for wire, (low, high) in sorted(joined.items(), key=lambda item: item[1][1] - item[1][0]):
        free = (k for k, lane in enumerate(taken) if all(h < low or high < b for b, h in lane))
        lanes[wire] = next(free, len(taken))
        taken += [[] for _ in range(lanes[wire] + 1 - len(taken))]
        taken[lanes[wire]].append((low, high))
    return lanes


def _path(start: _Place, stop: _Place, lane: float) -> str:
    """From one end through the lane to another, with an arrow where a value arrives."""
    r = min(RADIUS, abs(stop.y - start.y) / 2)
    down = 1 if stop.y >= start.y else -1
    out = 1 if start.is_left else -1  # which way the box lies, seen from the lane
    back = 1 if stop.is_left else -1
    tip = stop.x if stop.end.is_out else stop.x - back * 2
    steps = (
        f"M{start.x:.1f} {start.y:.1f}H{lane + out * r:.1f}"
        f"Q{lane:.1f} {start.y:.1f} {lane:.1f} {start.y + down * r:.1f}"
        f"V{stop.y - down * r:.1f}Q{lane:.1f} {stop.y:.1f} {lane + back * r:.1f} {stop.y:.1f}"
        f"H{tip:.1f}"
    )
    dashes = ' class="dashed"' if start.end.is_dashed or stop.end.is_dashed else ""
    line = f'<path{dashes} d="{steps}"/>'
    if stop.end.is_out:
        return line
    point = f"M{stop.x:.1f} {stop.y:.1f}l{-6 * back} -3.5v7z"
    return f'{line}<path class="arrow" d="{point}"/>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}">{escape(text)}</text>'


def _open(title: str, width: float, height: float) -> str:
    size = f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}"'
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n"
        '<rect class="page" width="100%" height="100%"/>'
    )


_STYLE = """
svg { --page: #fff; --ink: #1f2328; --muted: #59636e; --region: #ddf4ff; --region-line: #0969da;
  --outside: #fff4c8; --outside-line: #9a6700; --segment: #f6f8fa; --segment-line: #818b98;
  --kernel: #dafbe1; --kernel-line: #1a7f37; }
@media (prefers-color-scheme: dark) { svg { --page: #0d1117; --ink: #e6edf3; --muted: #9198a1;
  --region: #0c2d57; --region-line: #4493f8; --outside: #33270b; --outside-line: #d29922;
  --segment: #161b22; --segment-line: #656c76; --kernel: #0f2e18; --kernel-line: #3fb950; } }
text { font: 11.5px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  fill: var(--ink); white-space: pre; }
.head { font-size: 15px; font-weight: 600; }
.section, .title { font-weight: 600; }
.note { fill: var(--muted); }
.page { fill: var(--page); }
.region { fill: var(--region); stroke: var(--region-line); }
.outside { fill: var(--outside); stroke: var(--outside-line); }
.segment { fill: var(--segment); stroke: var(--segment-line); }
.view { fill: var(--page); stroke: var(--segment-line); stroke-dasharray: 4 3; }
.kernel { fill: var(--kernel); stroke: var(--kernel-line); }
.edge { fill: var(--page); stroke: var(--muted); }
.wire path { fill: none; stroke-width: 1.4; }
.wire .arrow { fill: inherit; stroke: none; }
.wire .dashed { stroke-dasharray: 4 3; }
.wire:hover path { stroke-width: 3.5; }
"""
