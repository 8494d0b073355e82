"""The parts of docs/tutorial.md that are printed by docs/tutorial.py."""

from __future__ import annotations

import re
import runpy
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from thunder_fuser import explain, profile

SCRIPT = Path(__file__).parents[1] / "docs" / "tutorial.py"
_CLOCKS = ("us", "GB/s")  # columns that differ from run to run


def source(*names: str) -> Callable[[], str]:
    """The text of functions and classes of the script."""

    def printed() -> str:
        blocks = SCRIPT.read_text().split("\n\n\n")
        found = [next(b for b in blocks if re.match(rf"(def|class) {n}\b", b)) for n in names]
        return fenced("python", "\n\n\n".join(found))

    return printed


def summary() -> str:
    """How much was fused, and what was not."""
    return fenced("text", _summary(explain(ran()["jblock"])))


def symbols() -> str:
    """A rotation, line by line."""
    forward = explain(ran()["jblock"]).split("\n\n")[0].splitlines()
    first = next(k for k, line in enumerate(forward) if " cat " in line) - 5
    return fenced("text", _short("\n".join(forward[first : first + 11])))


def region() -> str:
    """The region of that rotation."""
    parts = explain(ran()["jblock"]).split("\n\n")
    return fenced("text", next(part for part in parts if part.startswith("region TF1:")))


def segments() -> str:
    """The profile without its times."""
    lines = str(profile(ran()["jblock"], *ran()["inputs"])).splitlines()
    rows = [re.split(r"\s{2,}", line.strip()) for line in lines]
    kept = [k for k, name in enumerate(rows[0]) if name not in _CLOCKS]
    rows = [[row[k] for k in kept] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    table = ["  ".join(map(str.rjust, row, widths)) for row in rows]
    return fenced("text", "\n".join(table))


def packed() -> str:
    """The line of the symbol that stayed outside, and the summary."""
    text = explain(ran()["packed"])
    line = next(line for line in text.splitlines() if " sort " in line)
    return fenced("text", _short(f"{line}\n\n{_summary(text)}"))


def counted() -> str:
    return fenced("text", _summary(explain(ran()["counted"])))


PARTS: dict[str, Callable[[], str]] = {
    "tutorial_block": source("make_block", "accelerate"),
    "tutorial_summary": summary,
    "tutorial_symbols": symbols,
    "tutorial_region": region,
    "tutorial_segments": segments,
    "tutorial_pack": source("Packed"),
    "tutorial_packed": packed,
    "tutorial_counted": counted,
}


@cache
def ran() -> dict[str, Any]:
    """What the script defines, and what its functions return: `jblock` and its `inputs`, `packed`
    and `counted`."""
    script = runpy.run_path(str(SCRIPT))
    jblock, inputs = script["accelerate"]()
    packed, counted = script["pack"]()
    made = {"jblock": jblock, "inputs": inputs, "packed": packed, "counted": counted}
    return script | made


def _summary(text: str) -> str:
    """The headings, then the table of what is outside."""
    parts = text.split("\n\n")
    headings = [p.splitlines()[0] for p in parts if p.startswith(("forward:", "backward:"))]
    (outside,) = (part for part in parts if part.startswith("outside, "))
    return "\n".join([*headings, "", outside])


def _short(text: str) -> str:
    """Files from the directory on in which packages or this checkout lie."""
    checkout = re.escape(str(SCRIPT.parents[1]))
    return re.sub(rf"\((\S*/site-packages|{checkout})/", "(", text)


def fenced(language: str, text: str) -> str:
    return f"```{language}\n{text.rstrip()}\n```\n"
