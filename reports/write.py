"""Write a page: HTML, Markdown with its plots as files, and the rows it was made of."""

from __future__ import annotations

import json
from pathlib import Path

from reports import html, markdown
from reports.columns import COLUMNS, LISTS
from reports.page import Page
from reports.rows import BadRows, Run


def write(page: Page, directory: Path, name: str) -> Path:
    """`name`.html, `name`.md and their plots; plots of an earlier page of that name are removed.
    Returns the path of the HTML. Raises BadRows where the directory cannot be written."""
    plots = directory / markdown.PLOTS
    try:
        plots.mkdir(parents=True, exist_ok=True)
        for old in plots.glob(f"{name}-*.svg"):
            old.unlink()
        for section in page.sections:
            for figure in section.figures:
                (plots / f"{name}-{figure.name}.svg").write_text(figure.file)
        (directory / f"{name}.md").write_text(markdown.render(page, f"{markdown.PLOTS}/{name}-"))
        path = directory / f"{name}.html"
        path.write_text(html.render(page))
    except OSError as error:
        raise BadRows(f"{directory} cannot be written: {error.strerror or error}") from error
    return path


def write_rows(run: Run, directory: Path) -> None:
    """As rows.csv, so that the directory can be read again: without what `derive` added."""
    frame = run.frame[COLUMNS].dropna(axis="columns", how="all")
    for column in LISTS:
        if column in frame:
            frame[column] = [None if one is None else json.dumps(one) for one in frame[column]]
    frame.to_csv(directory / "rows.csv", index=False)
