"""fuser.segments, fuser.repro and NVTX ranges: what ran, and how to run it again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import thunder
import torch

from tests import fresh
from tests.executor.jitted import jit
from thunder_fuser import fuser
from thunder_fuser.executor import region as region_module
from thunder_fuser.executor import segments as segments_module
from thunder_fuser.executor.segments import SegmentRow


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.cos(x) * y, -1) + torch.cumprod(y, 0) * 3


def called() -> Callable[..., torch.Tensor]:
    jfn = thunder.jit(program, executors=[fuser])
    jfn(torch.randn(7, 65), torch.randn(7, 65))
    return jfn


def test_each_segment_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments_module, "find_spec", lambda name: None)
    size = 7 * 65 * 4
    assert fuser.segments(called()) == [
        SegmentRow("TF0", 0, 0, "kernel", "the region", 2, 1, 2 * size, size),
        SegmentRow("TF1", 0, 0, "kernel", "the region", 2, 1, 2 * size, size),
    ]


def test_the_rows_are_a_data_frame_where_pandas_is_installed() -> None:
    pytest.importorskip("pandas")
    frame = fuser.segments(called())
    assert list(frame["region"]) == ["TF0", "TF1"]


def test_a_repro_runs_alone(tmp_path: Path) -> None:
    jfn = called()
    script = fuser.repro(jfn, "TF0")
    assert "fd.ops.cos" in script
    assert script == fuser.repro(jfn, 0) == fuser.repro(jfn, -2)
    path = tmp_path / "repro.py"
    path.write_text(script)
    fresh.script(path)


def test_a_region_that_does_not_exist_has_no_repro() -> None:
    with pytest.raises(ValueError, match="there is no region 'TF7'; there are TF0, TF1"):
        fuser.repro(called(), "TF7")
    jfn = jit(lambda x: torch.sin(x) * x)
    jfn(torch.randn(3, requires_grad=True))
    with pytest.raises(ValueError, match="TF1 was not called yet"):
        fuser.repro(jfn, "TF1")


def test_each_run_of_a_region_is_a_range(monkeypatch: pytest.MonkeyPatch) -> None:
    ranges: list[str] = []

    def annotate(name: str) -> Callable[[Any], Any]:
        def around(run: Any) -> Any:
            def call(args: Any) -> Any:
                ranges.append(name)
                return run(args)

            return call

        return around

    monkeypatch.setattr(region_module, "annotate_for_profile", annotate)
    jfn = called()
    jfn(torch.randn(7, 65), torch.randn(7, 65))
    assert ranges == ["TF0 of thunder_fuser", "TF1 of thunder_fuser"] * 2
