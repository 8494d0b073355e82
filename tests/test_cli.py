"""The commands: what they print, and their exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from textwrap import dedent

import pytest
from msgspec import to_builtins

from thunder_fuser.cli.main import main
from thunder_fuser.cli.rope_run import DemoReport, TensorError
from thunder_fuser.executor.sizes import size
from thunder_fuser.options import Options, options
from thunder_fuser.runtime.choices import CHOICES, Choice
from thunder_fuser.runtime.disk_cache import disk_cache
from thunder_fuser.runtime.host_compiler import compiler_available

SMALL = [
    *("--length", "9", "--heads", "6", "--groups", "2", "--head-size", "16", "--rotated", "8"),
    *("--device", "cpu"),
]

needs_compiler = pytest.mark.skipif(not compiler_available(), reason="no C++ compiler")

CHOICE = Choice(
    key="a" * 64, device="GPU", parameters="P(b)", microseconds={"P(a)": 5.0, "P(b)": 4.0}
)


@needs_compiler
def test_demo_is_one_kernel_each_way_and_recompiles_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with options(cache_dir=str(tmp_path / "cache")):
        assert main(["demo", *SMALL, "--out", str(tmp_path / "out"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    forward, backward = found["regions"]
    assert [forward["direction"], backward["direction"]] == ["forward", "backward"]
    assert [forward["kernels"], backward["kernels"]] == [1, 1]
    assert [forward["outside"], backward["outside"]] == [0, 0]
    assert found["saved"].endswith(f": {2 * 9 * 8 * 2} bytes")  # cos and sin in bf16, no more
    assert "thunder hits 1, trie hits 0 of 0 lookups, kernels compiled 0" in found["second_call"]
    assert "trie hits 2 of 2 lookups, kernels compiled 0" in found["compiled_anew"]
    texts = [Path(path).read_text() for path in found["cuda_files"]]
    assert len(texts) == 2
    assert all('extern "C" __global__' in text for text in texts)


@needs_compiler
def test_demo_shows_what_is_a_view(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sizes = [*SMALL, "--groups", "6"]  # every head has its own value, which needs no copy
    assert main(["demo", *sizes, "--out", str(tmp_path)]) == 0
    width = 6 * 3 * 16
    assert (
        f"alias: T7 is a view of T0: shape [2, 6, 9, 16] strides [{9 * width}, 48, {width}, 1] "
        "offset 32"
    ) in capsys.readouterr().out


def test_demo_fails_where_an_error_is_large() -> None:
    def is_accurate(ours: float, eager: float) -> bool:
        errors = [TensorError("q", ours, eager)]
        return DemoReport("", "", [], "", errors, "", "", "", "", []).is_accurate

    assert is_accurate(0.0, 0.0)
    assert is_accurate(0.02, 0.011)
    assert not is_accurate(0.03, 0.011)
    assert not is_accurate(float("nan"), 0.011)


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        (["--heads", "5"], "5 heads do not divide into 4 groups"),
        (["--groups", "0"], "groups=0: a size is at least 1"),
        (["--rotated", "7"], "7 rotated elements: an even number up to the head size 32"),
    ],
)
def test_demo_refuses_sizes_that_make_no_attention(
    sizes: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", *sizes, "--device", "cpu"]) == 2
    assert f"thunder_fuser demo: {message}" in capsys.readouterr().err


def test_env_names_versions_and_changed_options(capsys: pytest.CaptureFixture[str]) -> None:
    with options(strict=True):
        assert main(["env", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["lightning-thunder"] == "0.2.6"
    assert found["option THUNDER_FUSER_STRICT"] == "True"
    assert "option THUNDER_FUSER_FUEL" not in found


def test_demo_names_the_devices_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--device", "cuda:77"]) == 2
    assert "thunder_fuser demo: --device cuda:77: there is cpu" in capsys.readouterr().err


def test_env_gives_the_options_in_use_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with options(strict=True, log="claim"):
        assert main(["env", "--options", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert len(found) == len(fields(Options))
    assert found["THUNDER_FUSER_STRICT"] is True
    assert found["THUNDER_FUSER_LOG"] == ["claim"]


def test_env_lists_the_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env", "--options"]) == 0
    assert "THUNDER_FUSER_CACHE_DIR" in capsys.readouterr().out


@needs_compiler
def test_cache_counts_verifies_and_clears(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with options(cache_dir=str(tmp_path / "cache")) as chosen:
        main(["demo", *SMALL, "--length", "11", "--out", str(tmp_path / "out")])
    capsys.readouterr()

    def run(*arguments: str) -> tuple[int, dict[str, object]]:
        status = main(["cache", *arguments, "--dir", str(tmp_path / "cache"), "--json"])
        return status, json.loads(capsys.readouterr().out)

    assert run("stats")[1]["entries"] == 2
    assert run("verify") == (0, {**run("verify")[1], "entries": 2, "damaged": 0})
    damaged = next(disk_cache(chosen).directory.glob("*.kernel"))
    damaged.write_bytes(damaged.read_bytes()[:-1])
    status, found = run("verify")
    assert (status, found["damaged"]) == (1, 1)
    assert damaged.stem in found
    assert run("tuned")[1]["choices"] == []
    CHOICES.keep(CHOICE, chosen)
    (choice,) = run("tuned")[1]["choices"]
    assert choice == to_builtins(CHOICE)
    main(["cache", "tuned", "--dir", str(tmp_path / "cache")])
    assert f"choices    {CHOICE}" in capsys.readouterr().out
    assert run("prune", "--max-bytes", "0")[1]["entries"] == 0
    assert run("clear")[1]["freed"] == 0


def test_cache_says_where_there_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("not a directory")
    with pytest.warns(RuntimeWarning, match="running without the kernel cache"):
        assert main(["cache", "stats", "--dir", str(tmp_path / "file")]) == 1
    assert "cannot be used" in capsys.readouterr().err


def test_explain_runs_a_script_and_writes_its_stages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        dedent("""\
            import sys
            import thunder, torch
            from thunder_fuser import fuser
            def program(x):
                return torch.cumprod(torch.tanh(x) * 2, 0)
            never = thunder.jit(program, executors=[fuser])
            once = thunder.jit(program, executors=[fuser], fuser_evaluator=True)
            once(torch.randn(int(sys.argv[1]), 5))
        """)
    )
    assert main(["explain", "--dump", str(tmp_path / "stages"), str(script), "3"]) == 0
    said = capsys.readouterr().out
    assert "never" not in said
    assert f"in region TF0  ({script}:5)" in said
    assert "cumprod" in said
    assert "outside, and the bytes that regions write for it or read from it:" in said
    assert "60 bytes  1 x cumprod: no rule for cumprod" in said
    fusion = (tmp_path / "stages" / "0_TF0" / "1_fusion.txt").read_text()
    assert fusion.startswith("fusion(T0: f32[i3, i5]) {\n  T1: f32[i3, i5] = tanh(T0)\n")


def test_explain_says_where_there_is_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty.py").write_text("x = 1\n")
    assert main(["explain", str(tmp_path / "empty.py")]) == 1
    assert "called no function that thunder.jit made" in capsys.readouterr().err


def test_a_wrong_call_is_status_two() -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["cache", "polish"])
    assert stopped.value.code == 2


def test_sizes_read_like_sizes() -> None:
    assert [size(n) for n in (0, 1023, 1536, Options().cache_max_bytes)] == [
        *("0 B", "1023 B", "1.5 KiB", "2 GiB")
    ]


def test_the_module_runs_and_a_closed_pipe_is_no_error() -> None:
    command = [sys.executable, "-W", "ignore", "-m", "thunder_fuser", "env", "--options"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    assert "Traceback" not in process.stderr.read()
    assert process.wait() in (0, 120)  # 120: the interpreter could not flush a closed stream
    process.stderr.close()
