"""Boxes do not overlap, wires meet the rows they belong to and keep apart, text is text."""

from __future__ import annotations

import random
import re
from itertools import combinations
from xml.etree import ElementTree

import pytest

from thunder_fuser.executor.diagram import LINE, Band, Box, End, Row, Section, svg

SVG = "{http://www.w3.org/2000/svg}"


def sections(seed: int) -> list[Section]:
    """Random bands of up to three columns, whose wires lead from earlier rows to later ones."""
    draw = random.Random(seed)
    made: list[str] = []

    def row(band: int, position: int) -> Row:
        if made and draw.random() < 0.6:
            end = End(draw.choice(made))
        else:
            made.append(f"t{len(made)}")
            end = End(made[-1], is_out=True)
        inner = End(f"{band}.{position % 3}", is_out=position < 3, is_dashed=draw.random() < 0.3)
        return Row(f"row {end.wire}", "port", end, draw.choice([None, inner]))

    def band(number: int) -> Band:
        first = Box("region", tuple(row(number, k) for k in range(draw.randint(1, 6))))
        others = [
            Box("segment", (Row("segment", "title"), Row("reads", "port", End(f"{number}.{k}"))))
            for k in range(draw.randint(0, 4))
        ]
        return Band(((first,), tuple(others)) if others else ((first,),))

    return [Section(f"part {k}", tuple(band(n) for n in range(draw.randint(1, 8)))) for k in (0, 1)]


def numbers(element: ElementTree.Element, *names: str) -> tuple[float, ...]:
    return tuple(float(element.attrib[name]) for name in names)


def boxes(root: ElementTree.Element) -> list[tuple[float, float, float, float]]:
    found = [r for r in root.iter(f"{SVG}rect") if r.attrib["class"] != "page"]
    return [numbers(r, "x", "y", "width", "height") for r in found]


def wires(root: ElementTree.Element) -> list[tuple[str, list[str]]]:
    """The names and the lines of the wires, without their arrows."""
    return [
        (
            group[0].text or "",
            [p.attrib["d"] for p in group[1:] if p.attrib.get("class") != "arrow"],
        )
        for group in root.iter(f"{SVG}g")
    ]


@pytest.mark.parametrize("seed", range(12))
def test_boxes_do_not_overlap_and_lie_on_the_page(seed: int) -> None:
    root = ElementTree.fromstring(svg("random", "legend", sections(seed)))
    width, height = numbers(root, "width", "height")
    for x, y, w, h in boxes(root):
        assert 0 < x < x + w < width
        assert 0 < y < y + h < height
    for (ax, ay, aw, ah), (bx, by, bw, bh) in combinations(boxes(root), 2):
        assert ax + aw <= bx or bx + bw <= ax or ay + ah <= by or by + bh <= ay


@pytest.mark.parametrize("seed", range(12))
def test_wires_lead_from_the_row_that_makes_to_those_that_read(seed: int) -> None:
    """In the gutter on the left, where all rows of a section may be joined."""
    root = ElementTree.fromstring(svg("random", "legend", sections(seed)[:1]))
    rows: dict[str, list[float]] = {}
    for text in root.iter(f"{SVG}text"):
        if (text.text or "").startswith("row "):
            rows.setdefault((text.text or "")[4:], []).append(float(text.attrib["y"]) - LINE / 4)
    expected = {name: ys for name, ys in rows.items() if len(ys) > 1}
    found = {name: lines for name, lines in wires(root) if name.startswith("t")}
    assert set(found) == set(expected)
    for name, lines in found.items():
        start, *stops = expected[name]
        ends = [re.fullmatch(r"M\S+ (\S+)H.* (\S+)H\S+", line) for line in lines]
        assert [float(e[1]) for e in ends if e] == pytest.approx([start] * len(lines), abs=0.1)
        assert sorted(float(e[2]) for e in ends if e) == pytest.approx(sorted(stops), abs=0.1)


@pytest.mark.parametrize("seed", range(12))
def test_wires_of_one_lane_do_not_meet(seed: int) -> None:
    root = ElementTree.fromstring(svg("random", "legend", sections(seed)[:1]))
    lanes: dict[str, list[tuple[float, float]]] = {}
    for _, lines in wires(root):
        found = [re.search(r"Q(\S+) (\S+) .*Q\S+ (\S+) ", line) for line in lines]
        ys = [float(y) for m in found if m for y in (m[2], m[3])]
        lanes.setdefault(found[0][1] if found[0] else "", []).append((min(ys), max(ys)))
    for spans in lanes.values():
        for (a, b), (c, d) in combinations(spans, 2):
            assert b < c or d < a


def test_text_is_escaped_and_the_file_is_the_same_every_time() -> None:
    rows = (Row('a < b & "c"', "title", End("<&>", True)), Row("b", "port", End("<&>")))
    given = [Section("<b>", (Band(((Box("region", rows),),)),))]
    text = svg("<script>", "&", given)
    root = ElementTree.fromstring(text)
    texts = [t.text for t in root.iter(f"{SVG}text")]
    assert texts == ["<script>", "&", "<b>", 'a < b & "c"', "b"]
    assert wires(root)[0][0] == "<&>"
    assert svg("<script>", "&", given) == text


def test_pages_are_light_or_dark() -> None:
    text = svg("page", "", [Section("s", (Band(((Box("edge", (Row("r"),)),),)),))])
    assert "@media (prefers-color-scheme: dark)" in text
    named = set(re.findall(r"var\((--[\w-]+)\)", text))
    assert named == set(re.findall(r"(--[\w-]+):", text))
