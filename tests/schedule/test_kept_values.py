"""What a block that keeps columns computes once."""

from __future__ import annotations

import pytest
import torch

from tests.programs import H200
from tests.test_tall_kernels import given, program
from thunder_fuser import pipeline
from thunder_fuser.runtime.bind import bind
from thunder_fuser.schedule import kept_columns
from thunder_fuser.schedule.kept_columns import KeptSchedule
from thunder_fuser.schedule.kept_values import RowShares
from thunder_fuser.schedule.parameters import KeptParameters


def scheduled(*sizes: int, dtype: torch.dtype = torch.bfloat16, **wanted: bool) -> KeptSchedule:
    tensors = given(*sizes, dtype, "meta")
    bound = bind(program(*tensors), tensors)
    (segment,) = pipeline.cut_region(bound.fusion, bound.layouts, H200, strict=False).segments
    return kept_columns.schedule(segment, H200, KeptParameters(**wanted))


@pytest.mark.parametrize(
    ("vectors", "samples"), [(64, 1), (32, 1), (48, 2), (31, 2), (8, 4), (5, 8)]
)
def test_a_block_has_columns_of_so_many_samples(vectors: int, samples: int) -> None:
    assert RowShares((), vectors).samples(32) == samples


def test_quotients_of_rows_are_shared_and_exponentials_left() -> None:
    found = scheduled(64, 40, 12544)
    assert [tv.expr.op.name for tv, _ in found.shares.values] == ["expand", "expand"]
    assert found.shares.vectors == 6272
    ((share, _),) = found.left[0][:1]
    assert share.expr.op.name == "div"


def test_threads_of_whole_vectors_compute_again() -> None:
    found = scheduled(64, 40, 12544, tall=False)
    assert (found.axes.lanes, found.shares.values, found.left) == (8, (), ())


@pytest.mark.parametrize("rows", [4096, 1024])
def test_rows_that_two_blocks_have_no_room_for_are_kept_as_before(rows: int) -> None:
    assert scheduled(8, rows, 4096).axes.lanes == 8
