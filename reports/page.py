"""A page before it is Markdown or HTML: a head that says how to measure again, and sections."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from reports.plots.figure import Figure
from reports.table import Table

Fact = tuple[str, str]


@dataclass(frozen=True)
class Section:
    """`name` is what links to it. `text` are paragraphs. Figures are drawn when they are asked for:
    a terminal never does."""

    name: str
    title: str
    text: tuple[str, ...] = ()
    tables: tuple[Table, ...] = ()
    draw: Callable[[], tuple[Figure, ...]] = tuple

    @cached_property
    def figures(self) -> tuple[Figure, ...]:
        return self.draw()


@dataclass(frozen=True)
class Page:
    """`measured` are the commands that measured the rows, `made` is the one that made the page."""

    title: str
    measured: tuple[str, ...]
    made: str
    facts: tuple[Fact, ...]
    warnings: tuple[str, ...]
    sections: tuple[Section, ...]
