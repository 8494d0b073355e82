"""Which rows pass through shared memory as one stretch of a block."""

from __future__ import annotations

import pytest

from tests.programs import H200, expand, permute, total, unsqueeze
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.schedule.row_schedule import RowSchedule


def scheduled(*inputs: TensorView, held: int | None = None) -> RowSchedule:
    """Rows of the first input less their sum, and less what the second one repeats."""
    x, *others = inputs
    summed = x
    for other in others:
        summed = call("sub", summed, expand(unsqueeze(other, 0), *x.shape))
    dim = x.ndim - 1
    made = call("sub", summed, expand(unsqueeze(total(summed, dim), dim), *x.shape))
    return rows.schedule(segment_of(inputs, made), H200, RowParameters(held=held))


def test_odd_short_rows_come_and_go_as_a_stretch_of_vectors() -> None:
    found = scheduled(halves(4096, 49))
    assert found.is_staged
    assert "T0 in registers and through shared memory" in str(found)


def test_the_plane_may_end_inside_a_vector() -> None:
    assert scheduled(halves(4095, 49)).is_staged


def test_what_images_repeat_is_a_stretch_too() -> None:
    assert scheduled(halves(64, 32, 49), halves(32, 49)).is_staged


LEFT = {
    "rows of whole vectors": (halves(4096, 64),),
    "rows of vectors of four bytes": (halves(4096, 50),),
    "rows longer than a line": (halves(4096, 129),),
    "rows of floats": (floats(4096, 97),),
    "images that end inside a vector": (halves(64, 31, 49), halves(31, 49)),
}


@pytest.mark.parametrize("case", LEFT)
def test_other_rows_are_read_as_they_are(case: str) -> None:
    assert not scheduled(*LEFT[case]).is_staged


def test_rows_of_a_block_may_fill_no_vectors() -> None:
    assert scheduled(halves(4096, 49), held=1).is_staged


def test_rows_that_lie_otherwise_are_read_as_they_are() -> None:
    x = halves(49, 4096)
    made = permute(x, 1, 0)
    found = rows.schedule(segment_of([x], total(made, 1)), H200)
    assert not found.is_staged
