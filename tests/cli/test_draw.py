"""`draw`: a file per function."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.scripts import TWO_REGIONS, write_script
from thunder_fuser.cli.main import main


@pytest.fixture(autouse=True)
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def title(path: str) -> str | None:
    return ElementTree.parse(path).getroot()[0].text


def test_the_file_has_the_scripts_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draw", write_script(Path("train.py"), TWO_REGIONS)]) == 0
    assert capsys.readouterr().out == "once  train.svg\n"
    assert title("train.svg") == "once: trace, segments, kernels"


def test_an_option_behind_the_script_is_the_scripts(capsys: pytest.CaptureFixture[str]) -> None:
    script = write_script(Path("train.py"), TWO_REGIONS)
    assert main(["draw", script, "--epochs", "1", "--out=some.svg", "--run"]) == 0
    printed = capsys.readouterr()
    assert printed.out == "once  train.svg\n"
    hint = "train.py is given --out=some.svg; if it is for this command, it goes before"
    assert printed.err.splitlines() == [hint]


def test_each_of_several_functions_has_a_file(capsys: pytest.CaptureFixture[str]) -> None:
    body = "for n in (3, 4): jit(lambda x: x.sin() * 2)(torch.randn(n))\n"
    script = write_script(Path("train.py"), body)
    assert main(["draw", "--json", "--out", "some.svg", script]) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found) == ["<lambda>", "<lambda> #2"]
    assert [title(path) for path in found.values()] == [
        f"{name}: trace, segments, kernels" for name in found
    ]


def test_nothing_to_draw_is_no() -> None:
    assert main(["draw", write_script(Path("train.py"), "x = 1\n")]) == 1
    assert not Path("train.svg").exists()
