"""A page as one HTML file: style and plots are in it, and nothing is fetched."""

from __future__ import annotations

from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from reports.page import Page
from reports.plots.figure import Figure
from reports.table import Best


def render(page: Page) -> str:
    """Texts of rows are escaped: errors quote templates and types of C++."""
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["svg"] = _svg
    environment.tests["best"] = _is_best
    return f"{environment.get_template('page.html').render(page=page)}\n"


def _svg(figure: Figure) -> Markup:
    """The only text that is not escaped: matplotlib wrote it, and escaped what is in it."""
    return Markup(figure.svg)


def _is_best(cell: str) -> bool:
    return isinstance(cell, Best)
