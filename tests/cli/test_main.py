"""What the command line says to someone who does not know it yet."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.scripts import TWO_REGIONS, write_script
from thunder_fuser.cli.main import main, parser


def refused(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    return capsys.readouterr().err


def test_without_a_command_it_prints_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "first steps:\n  python -m thunder_fuser demo" in said.err


def test_a_misspelled_command_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert "no command 'explian': did you mean explain?" in refused(capsys, "explian", "x.py")
    assert "no command 'zzz': there are demo, env, explain" in refused(capsys, "zzz")


def test_a_missing_argument_is_named_alone(capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(capsys, "explain").endswith("the following arguments are required: script\n")


def test_a_script_for_a_command_is_sent_to_explain(capsys: pytest.CaptureFixture[str]) -> None:
    assert "to ask about a script: explain train.py" in refused(capsys, "train.py")


def test_every_command_is_in_the_help_and_explains_itself(
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = parser().format_help()
    for command in ("demo", "env", "explain", "draw", "profile", "repro", "cache"):
        assert f"    {command} " in text
        with pytest.raises(SystemExit) as stopped:
            main([command, "--help"])
        assert stopped.value.code == 0
        assert (
            f"python -m thunder_fuser {command} " in capsys.readouterr().out.partition("example")[2]
        )


def test_a_missing_script_is_status_two(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", "gone.py"]) == 2
    assert capsys.readouterr().err == "thunder_fuser explain: there is no script gone.py\n"


def test_explain_gives_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    script = write_script(tmp_path / "script.py", f"print('noise')\n{TWO_REGIONS}")
    assert main(["explain", "--json", script]) == 0
    found = json.loads(capsys.readouterr().out)["once"]
    assert [(s["op"], s["region"], s["reason"]) for s in found["forward"]] == [
        *(("tanh", "TF0", None), ("mul", "TF0", None)),
        ("cumprod", None, "no rule for cumprod"),
        *(("exp", "TF1", None), ("mul", "TF1", None)),
    ]
    assert found["forward"][0]["file"] == script
    size = 7 * 5 * 4
    cumprod = {
        "op": "cumprod",
        "reason": "no rule for cumprod",
        "count": 1,
        "bytes": 2 * size,
    }
    assert found["outside"] == [cumprod]
    assert [(row["name"], row["symbols"], row["recompiles"]) for row in found["regions"]] == [
        *(("TF0", 2, []), ("TF1", 2, []))
    ]
    assert found["regions"][0]["plans"][0].startswith("segment 0 (kernel; the region): reads T0")
    assert [(row["region"], row["bytes_read"]) for row in found["segments"]] == [
        *(("TF0", size), ("TF1", 2 * size))
    ]
