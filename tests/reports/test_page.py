"""Pages: one file with everything in it, escaped, the same for the same rows."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from reports.__main__ import main
from reports.markdown import markdown
from reports.table import Best, Table
from tests.reports.made_up import host_target_run, small_run
from tests.reports.recorded import of_ours, run, write

Capture = pytest.CaptureFixture[str]
VOID = {"meta", "path", "use", "rect", "br"}


class Elements(HTMLParser):
    """Every element closes what it opened, and which there are."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with the report of a whole run."""
    place = tmp_path_factory.mktemp("report")
    rows = write(place / "rows.jsonl", small_run(14))
    assert main([str(rows), "--out", str(place / "out")]) == 0
    return place / "out"


def test_html_is_well_formed_and_fetches_nothing(written: Path) -> None:
    text = (written / "report.html").read_text()
    elements = Elements(text)
    assert not elements.open
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in elements.found}
    for _, attributes in elements.found:
        for name in ("src", "href", "xlink:href"):
            assert (attributes.get(name) or "#").startswith("#")
    assert "@import" not in text
    assert set(re.findall(r"url\((.)", text)) <= {"#"}
    assert "prefers-color-scheme: dark" in text
    ids = [attributes["id"] for _, attributes in elements.found if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_its_links_lead_to_its_sections(written: Path) -> None:
    elements = Elements((written / "report.html").read_text()).found
    links = {a["href"] for tag, a in elements if tag == "a"}
    assert links == {f"#{a['id']}" for tag, a in elements if tag == "section"}


def test_texts_of_rows_are_no_markup(written: Path) -> None:
    html, text = ((written / f"report.{kind}").read_text() for kind in ("html", "md"))
    assert "vector&lt;T&gt; | &lt;script&gt;x&lt;/script&gt;" in html
    assert "vector&lt;T> \\| &lt;script>x&lt;/script>" in text


def test_markdown_names_plots_that_lie_beside_it(written: Path) -> None:
    named = re.findall(r"!\[[^\]]+\]\((.+?)\)", (written / "report.md").read_text())
    assert len(named) == len(set(named)) > 10
    assert {written / name for name in named} == set((written / "plots").iterdir())
    for name in named:
        text = (written / name).read_text()
        assert text.startswith("<svg ")
        assert "prefers-color-scheme:dark" in text


def test_equal_rows_give_equal_files_and_old_plots_go(written: Path, tmp_path: Path) -> None:
    """Those that lie in the directory of the report do not go along."""
    assert (written / "rows.csv").exists()
    rows = write(tmp_path / "rows.jsonl", run())
    assert main([str(rows), "--out", str(tmp_path)]) == 0
    assert not (tmp_path / "rows.csv").exists()
    page, plots = (tmp_path / "report.html").read_text(), tmp_path / "plots"
    drawn = {path: path.read_text() for path in plots.iterdir()}
    (plots / "report-sweep-gone.svg").write_text("<svg/>")
    assert main([str(tmp_path), "--out", str(tmp_path)]) == 0
    assert (tmp_path / "report.html").read_text() == page.replace(str(rows), str(tmp_path))
    assert {path: path.read_text() for path in plots.iterdir()} == drawn


def test_a_directory_that_cannot_be_written_is_one_message(tmp_path: Path, capsys: Capture) -> None:
    rows = write(tmp_path / "rows.jsonl", run())
    (tmp_path / "file").write_text("")
    assert main([str(rows), "--out", str(tmp_path / "file")]) == 2
    assert f"{tmp_path / 'file'} cannot be written" in capsys.readouterr().err


def test_host_rows_are_marked_at_the_top_of_the_page(tmp_path: Path) -> None:
    rows = write(tmp_path / "rows.jsonl", host_target_run(3))
    assert main([str(rows), "--out", str(tmp_path)]) == 0
    text = (tmp_path / "report.html").read_text()
    assert '<p class="warning">Host target: kernels compiled by g++' in text
    assert text.index("Host target: kernels") < text.index("<nav>")
    for absent in ("device copy", "times faster", "ms a step"):
        assert absent not in text


def test_compare_writes_its_page_too(tmp_path: Path, capsys: Capture) -> None:
    new = run()
    new[of_ours(new)]["throttled"] = True
    paths = [write(tmp_path / name, rows) for name, rows in (("old", run()), ("new", new))]
    assert main(["compare", *map(str, paths), "--out", str(tmp_path)]) == 0
    html = (tmp_path / "compare.html").read_text()
    assert not Elements(html).open
    assert "softmax fwd †" in html
    assert f"{tmp_path / 'compare.html'} is the page" in capsys.readouterr().err


def test_a_command_that_is_misspelled_is_named(capsys: Capture) -> None:
    assert main(["comprae"]) == 2
    assert "did you mean `python -m reports compare`?" in capsys.readouterr().err


def test_markdown_tables_line_up() -> None:
    table = Table(("a", "b"), (("x*", Best("1|2")), ("<y>", "-")), labels=1)
    assert markdown(table) == "\n".join(
        (
            "| a      |        b |",
            "|:-------|---------:|",
            "| x\\*    | **1\\|2** |",
            "| &lt;y> |        - |",
        )
    )
