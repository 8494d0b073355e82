"""Pages in a real browser, as wide as a phone and as a desk: nothing overflows, overlaps or is too
small to read. Without Chromium they are skipped."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import escape, unescape
from pathlib import Path
from typing import Any

import pytest

from reports.__main__ import main
from tests.reports.made_up import full_run, host_target_run, small_run
from tests.reports.recorded import Row, scaled, write

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
PHONE, DESK = 390, 1600  # pixels
SMALLEST_TEXT = 9.0  # pixels
SECONDS = 180
ATTEMPTS = 3  # a busy machine may fail to start it

MEASURE = """
<script>
function boxes(svg) {
  return [...svg.querySelectorAll("text")].filter(one => one.textContent.trim()).map(one => {
    const box = one.getBoundingClientRect();
    return {text: one.textContent, x0: box.left, x1: box.right, y0: box.top, y1: box.bottom};
  });
}
function overlap(one, other) {
  const x = Math.min(one.x1, other.x1) - Math.max(one.x0, other.x0);
  const y = Math.min(one.y1, other.y1) - Math.max(one.y0, other.y0);
  return x > 2 && y > 3;
}
window.addEventListener("load", () => {
  document.querySelectorAll("details").forEach(one => { one.open = true; });
  const root = document.documentElement, found = {overlaps: [], outside: [], small: []};
  found.figures = document.querySelectorAll("figure svg").length;
  for (const svg of document.querySelectorAll("figure svg")) {
    const frame = svg.getBoundingClientRect(), texts = boxes(svg);
    const scale = frame.width / svg.viewBox.baseVal.width;
    for (const one of svg.querySelectorAll("text"))
      if (parseFloat(getComputedStyle(one).fontSize) * scale < SMALLEST)
        found.small.push(one.textContent);
    texts.forEach((one, k) => {
      if (one.x0 < frame.left - 1 || one.x1 > frame.right + 1 || one.y1 > frame.bottom + 1)
        found.outside.push(one.text);
      for (const other of texts.slice(k + 1))
        if (overlap(one, other)) found.overlaps.push([one.text, other.text]);
    });
  }
  found.width = window.innerWidth;
  found.scroll = root.scrollWidth;
  const wide = [...document.querySelectorAll("body *:not(.table *):not(svg *)")];
  found.wide = wide.filter(one => one.getBoundingClientRect().right > window.innerWidth + 1)
    .map(one => one.tagName + " " + one.textContent.slice(0, 40));
  const note = parent.document.createElement("pre");
  note.id = "measured";
  note.textContent = JSON.stringify(found);
  parent.document.body.append(note);
});
</script>
""".replace("SMALLEST", str(SMALLEST_TEXT))
# A window is never narrower than 500 pixels; a frame in it is.
FRAME = """<!doctype html><meta charset="utf-8"><body>
<iframe srcdoc="{}" style="width: {}px; height: 1200px; border: 0"></iframe>
</body>
"""


def seen(page: Path, width: int) -> dict[str, Any]:
    """What the browser measures on the page in a frame of that width."""
    assert CHROMIUM is not None
    frame = page.with_name("frame.html")
    text = page.read_text().replace("</body>", f"{MEASURE}</body>")
    frame.write_text(FRAME.format(escape(text), width))
    options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")
    profile = f"--user-data-dir={page.parent / 'profile'}"
    command = (CHROMIUM, *options, profile, "--window-size=1800,1300", "--dump-dom", frame.as_uri())
    for _ in range(ATTEMPTS):
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS)
        measured = re.search(r'<pre id="measured">(.*?)</pre>', done.stdout, re.DOTALL)
        if measured is not None:
            return dict(json.loads(unescape(measured[1])))
    raise AssertionError(f"Chromium did not run: {done.stderr[-2000:]}")


def report(place: Path) -> Path:
    rows = write(place / "rows.jsonl", full_run(31))
    assert main([str(rows), "--out", str(place)]) == 0
    return place / "report.html"


def report_of_the_host_target(place: Path) -> Path:
    rows = write(place / "rows.jsonl", host_target_run(32))
    assert main([str(rows), "--out", str(place)]) == 0
    return place / "report.html"


def verdict(place: Path) -> Path:
    old = small_run(33)
    new = [scaled(row, 1.0 + (k % 13 - 6) / 60) for k, row in enumerate(old)]
    paths = [write(place / name, rows) for name, rows in (("old", old), ("new", new))]
    assert main(["compare", *map(str, paths), "--out", str(place)]) == 1
    return place / "compare.html"


def history(place: Path) -> Path:
    paths = []
    for day in range(12, 16):
        rows: list[Row] = [scaled(row, 1 - day / 60) for row in small_run(34)]
        dated = [row | {"timestamp_utc": f"2026-11-{day}T06:00:00+00:00"} for row in rows]
        paths.append(write(place / f"2026-11-{day}-h200.jsonl", dated))
    assert main(["history", *map(str, paths), "--out", str(place)]) == 0
    return place / "history.html"


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
@pytest.mark.parametrize("page", [report, report_of_the_host_target, verdict, history])
def test_pages_read_well_on_a_phone_and_on_a_desk(page: Any, tmp_path: Path) -> None:
    path = page(tmp_path)
    for width in (PHONE, DESK):
        found = seen(path, width)
        assert found["width"] == width
        assert found["scroll"] <= width, found["wide"]
        assert not found["wide"]
        assert found["figures"] == path.read_text().count("<figure>")
        assert not found["small"]
        assert not found["outside"]
        assert not found["overlaps"]


@pytest.mark.slow
@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
def test_what_reads_badly_is_seen(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(
        """<!doctype html><body style="margin: 0"><div style="width: 500px">wide</div><figure>
        <svg viewBox="0 0 100 100" width="100"><text x="10" y="50" font-size="12">one</text>
        <text x="14" y="50" font-size="12">two</text><text x="10" y="80" font-size="5">tiny</text>
        <text x="90" y="20" font-size="12">cut off</text></svg></figure></body>"""
    )
    found = seen(page, PHONE)
    assert found["scroll"] > PHONE
    assert found["wide"] == ["DIV wide"]
    assert found["overlaps"] == [["one", "two"]]
    assert found["small"] == ["tiny"]
    assert found["outside"] == ["cut off"]
