"""`repro`: one region of a script as a script that runs alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.scripts import TWO_REGIONS, write_script
from thunder_fuser.cli.main import main


def test_the_region_it_writes_runs_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write_script(tmp_path / "script.py", TWO_REGIONS)
    out = str(tmp_path / "small.py")
    assert main(["repro", "--region", "TF1", "--out", out, "--json", script]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found == {"function": "once", "region": "TF1", "script": out}
    text = Path(out).read_text()
    assert "fd.ops.exp(" in text
    assert "fd.ops.tanh(" not in text
    assert "torch.randn(35, device='cpu')" in text
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    subprocess.run([sys.executable, "-W", "ignore", out], check=True, env=environment)


def test_the_only_region_needs_no_name(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    script = write_script(Path("script.py"), "f = jit(lambda x: x.sin() * 2)\nf(torch.randn(3))\n")
    assert main(["repro", script]) == 0
    assert capsys.readouterr().out == "region TF0 of f: python repro_TF0.py\n"
    assert "fd.ops.sin(" in Path("repro_TF0.py").read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "say which region:\n  --function 'once' --region TF0   tanh, mul\n"),
        (["--region", "TF7"], "there is no region 'TF7': did you mean TF1?"),
        (["--function", "twice"], "there is no function 'twice': there are once\n"),
    ],
)
def test_what_is_not_clear_is_a_wrong_call(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = write_script(tmp_path / "script.py", TWO_REGIONS)
    assert main(["repro", *arguments, script]) == 2
    assert message in capsys.readouterr().err


def test_a_script_without_regions_is_told_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    body = "f = jit(lambda x: torch.cumprod(x, 0))\nf(torch.randn(3))\n"
    assert main(["repro", write_script(tmp_path / "script.py", body)]) == 2
    assert "called no region; explain tells why" in capsys.readouterr().err
