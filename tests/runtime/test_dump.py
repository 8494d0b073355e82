"""The dump: numbered texts of every stage, the same for the same program."""

from __future__ import annotations

import json
import os
import re
import warnings
from pathlib import Path

import pytest
import torch

from tests import fresh
from tests.executor.jitted import jit
from tests.executor.test_rope import rope

STAGES = [
    "0_definition.py",
    "1_fusion.txt",
    "2_bound.txt",
    "3_tidied.txt",
    "4_segmented.txt",
    "4_segments.dot",
    "5_schedule_0.txt",
    "6_kernel_0.ir.txt",
    "7_kernel_0.cu",
    "8_plan.py",
    "meta.json",
    "repro.py",
]


def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    a = torch.exp(x) * y
    return a, a.t()


def run(directory: Path, rows: int = 3) -> None:
    x, y = torch.randn(rows, 5), torch.randn(rows, 5)
    jfn = jit(program, fuser_dump=str(directory), fuser_evaluator=False)
    torch.testing.assert_close(jfn(x, y), program(x, y))


def texts(directory: Path) -> dict[str, str]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_text() for path in files}


def test_every_stage_is_a_file_with_that_text(tmp_path: Path) -> None:
    run(tmp_path)
    found = texts(tmp_path)
    assert sorted(found) == [f"0_TF0/{name}" for name in STAGES]
    assert "fd.ops.exp(T0)" in found["0_TF0/0_definition.py"]
    assert found["0_TF0/1_fusion.txt"].startswith("fusion(T0: f32[i3, i5]")
    assert "segment 0 (kernel; the region): reads T0, T1" in found["0_TF0/4_segmented.txt"]
    assert found["0_TF0/5_schedule_0.txt"].startswith("map, blocks of 128\n  class over i0{7}")
    assert "blocks of 128" in found["0_TF0/6_kernel_0.ir.txt"]
    assert "__global__" in found["0_TF0/7_kernel_0.cu"]
    assert found["0_TF0/8_plan.py"].startswith("def run(T0, T1):")
    meta = json.loads(found["0_TF0/meta.json"])
    assert meta["arguments"][0]["shape"] == [3, 5]
    assert meta["arguments"][0]["strides"] == [5, 1]
    assert meta["options"]["alias"] == "view"
    assert "torch" in meta["versions"]


def test_two_runs_give_the_same_files(tmp_path: Path) -> None:
    for name in ("one", "two"):
        run(tmp_path / name)
    assert texts(tmp_path / "one") == texts(tmp_path / "two")


def test_two_processes_give_the_same_files(tmp_path: Path) -> None:
    """This process hashes by a random seed, the other one by seed 1."""
    code = (
        "import sys; from pathlib import Path; from tests.runtime.test_dump import run; "
        "run(Path(sys.argv[1]))"
    )
    fresh.output(code, str(tmp_path / "other"))
    run(tmp_path / "this")
    assert texts(tmp_path / "this") == texts(tmp_path / "other")


def test_plans_are_numbered_in_the_order_they_are_made(tmp_path: Path) -> None:
    run(tmp_path, 3)
    run(tmp_path, 4)
    assert sorted(os.listdir(tmp_path)) == ["0_TF0", "1_TF0"]


def test_the_repro_runs_alone(tmp_path: Path) -> None:
    run(tmp_path)
    fresh.script(tmp_path / "0_TF0/repro.py")


def test_unrolled_and_shared_classes_have_a_text(tmp_path: Path) -> None:
    args = torch.randn(2, 5, (4 + 4) * 8), torch.randn(5, 4), torch.randn(5, 4)
    jit(rope(4, 2, 8, 4), fuser_dump=str(tmp_path), fuser_evaluator=False)(*args)
    schedule = (tmp_path / "0_TF0/5_schedule_0.txt").read_text()
    assert re.search(r"class over i0\{\d+\}", schedule)
    assert re.search(r"T\d+\[i0, 2\*i1 \+ i2, i3, 4\*u0 \+ 2\*u1 \+ lane\], u0\{2\}, u1", schedule)


def test_reductions_have_a_text(tmp_path: Path) -> None:
    def norm(x: torch.Tensor) -> torch.Tensor:
        return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-5)

    x = torch.randn(6, 96)
    jfn = jit(norm, fuser_dump=str(tmp_path), fuser_evaluator=False)
    torch.testing.assert_close(jfn(x), norm(x))
    schedule = (tmp_path / "0_TF0/5_schedule_0.txt").read_text()
    assert schedule.startswith("rows over ")
    assert re.search(r"phase 0: T\d+\[group\] of T\d+\[group, ", schedule)


def test_a_rank_has_a_directory_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    run(tmp_path)
    assert os.listdir(tmp_path) == ["rank1"]


def test_an_unwritable_directory_warns_once_and_results_are_right(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        run(blocked, 3)
        run(blocked, 4)
    told = [str(w.message) for w in seen if "cannot be written" in str(w.message)]
    assert len(told) == 1
    assert told[0].startswith(f"dump={blocked}")
    assert told[0].endswith("nothing is dumped there")
