"""`profile`: the segments of a script's regions, timed on tensors like those of its calls."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.scripts import TWO_REGIONS, write_script
from thunder_fuser.cli.main import main


def test_every_region_that_was_called_is_timed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write_script(tmp_path / "script.py", TWO_REGIONS)
    assert main(["profile", "--json", script]) == 0
    first, second = json.loads(capsys.readouterr().out)["once"]
    size = 7 * 5 * 4
    assert (first["region"], [s["bytes"] for s in first["segments"]]) == ("TF0", [2 * size])
    assert (second["region"], [s["bytes"] for s in second["segments"]]) == ("TF1", [3 * size])
    assert all(one["seconds"] > 0 and one["segments"][0]["gbps"] > 0 for one in (first, second))


def test_it_prints_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", write_script(tmp_path / "script.py", TWO_REGIONS)]) == 0
    title, line, head, *rows = capsys.readouterr().out.splitlines()
    assert (title, line, head.split()[:3]) == ("once", "====", ["region", "segment", "kind"])
    assert [row.split()[:3] for row in rows[:2]] == [["TF0", "0", "torch"], ["TF0", "all", "0"]]


def test_nothing_to_time_is_no(tmp_path: Path) -> None:
    body = "f = jit(lambda x: torch.cumprod(x, 0))\nf(torch.randn(3))\n"
    assert main(["profile", write_script(tmp_path / "script.py", body)]) == 1
