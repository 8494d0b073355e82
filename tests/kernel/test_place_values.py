"""What of a gradient there is one of per place."""

from __future__ import annotations

import torch

from tests.schedule.test_kept_tiles import walked
from thunder_fuser.kernel.kept_columns import lower_kept_columns
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.kernel.statements import Accumulate, Assign, Hold


def gradient(shape: tuple[int, ...]) -> KeptKernel:
    return lower_kept_columns(walked(shape, torch.bfloat16), strict=False)


def test_it_is_not_computed_for_each_element() -> None:
    kernel = gradient((2674, 512, 49))
    assert kernel.images is not None
    left = kernel.images.at_places.scope
    held = [s for s in left.statements if isinstance(s, Hold)]
    assert [s.place.name for s in held] == [f"f32_known_at[place].v[{k}]" for k in range(2)]
    assert [s.value.name for s in held] == ["T3_row[0]", "T12_row[0]"]  # type: ignore[union-attr]
    assert left.loads == ()


def test_a_lane_has_its_own() -> None:
    kernel = gradient((2670, 128, 196))
    assert kernel.images is not None
    names = [s.place.name for s in kernel.images.at_places.scope.statements if isinstance(s, Hold)]
    assert names[0] == "f32_known_at[lane * 49 + place].v[0]"
    used = [s for s in kernel.full.statements if isinstance(s, Assign)]
    assert any("f32_known[lane].v[0]" in str(s.value) for s in used)


def test_columns_in_registers_need_none() -> None:
    kernel = gradient((64, 192, 784))
    assert kernel.images is None
    assert any(isinstance(s, Accumulate) for s in kernel.full.statements)
    assert any("T3_row[lane]" in str(s) for s in kernel.full.statements)
