"""Rows are stored where they are read, in whatever order of their dims."""

from __future__ import annotations

import pytest

from tests.programs import H200, chain, permute, total, unsqueeze
from tests.schedule.segments import floats, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import rows


def normalised(x: TensorView) -> TensorView:
    return call("mul", x, unsqueeze(total(chain(x, "exp"), x.ndim - 1), x.ndim - 1))


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (2, 1, 0, 3), (1, 2, 0, 3)])
def test_heads_that_are_stored_in_another_order_are_one_kernel(order: tuple[int, ...]) -> None:
    x = floats(2, 6, 4, 128)
    segment = segment_of([x], permute(normalised(x), *order))
    assert rows.reject(segment, H200) is None
    schedule = str(rows.schedule(segment, H200))
    (stored,) = (line for line in schedule.splitlines() if "store whole rows" in line)
    dims = ["(group/24)", "((group/4)%6)", "(group%4)"]
    assert f"[{', '.join(dims[k] for k in order[:3])}, " in stored


def test_what_mixes_rows_and_columns_is_refused() -> None:
    x = floats(2, 6, 4, 128)
    segment = segment_of([x], permute(normalised(x), 0, 3, 1, 2))
    assert rows.reject(segment, H200) is not None
