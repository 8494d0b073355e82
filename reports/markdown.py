"""A page as Markdown, with its plots as files beside it."""

from __future__ import annotations

from tabulate import tabulate

from reports.page import Page, Section
from reports.table import Best, Table

PLOTS = "plots"  # the directory beside the page


def render(page: Page, plots: str | None = None) -> str:
    """`plots` is what stands before the names of the figures' files; without files, None."""
    parts = [f"# {_plain(page.title)}"]
    parts += [f"> {_plain(text)}" for text in page.warnings]
    parts += [f"Measured by `{command}`" for command in page.measured]
    parts += [f"This page was made by `{page.made}`", markdown(_facts(page))]
    for section in page.sections:
        parts += _section(section, plots)
    return "\n\n".join(parts) + "\n"


def markdown(table: Table) -> str:
    """A table whose columns line up in the text too."""
    sides = ["left"] * table.labels + ["right"] * (len(table.head) - table.labels)
    rows = [[_cell(text) for text in row] for row in table.rows]
    head = [_cell(name) for name in table.head]
    return str(tabulate(rows, head, tablefmt="pipe", disable_numparse=True, colalign=sides))


def _facts(page: Page) -> Table:
    return Table(("", ""), page.facts, labels=2)


def _section(section: Section, plots: str | None) -> list[str]:
    parts = [f"## {_plain(section.title)}", *map(_plain, section.text)]
    if plots is not None:
        parts += [f"![{_plain(one.alt)}]({plots}{one.name}.svg)" for one in section.figures]
    for table in section.tables:
        parts += [f"**{_plain(table.caption)}**"] if table.caption else []
        parts.append(markdown(table))
    return parts


def _cell(text: str) -> str:
    plain = _plain(text).replace("|", "\\|")
    return f"**{plain}**" if isinstance(text, Best) else plain


def _plain(text: str) -> str:
    """Text that is no markup: errors quote templates and types of C++."""
    one_line = " ".join(text.split())
    return one_line.replace("&", "&amp;").replace("<", "&lt;").replace("*", "\\*")
