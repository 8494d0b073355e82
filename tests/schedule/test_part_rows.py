"""Odd rows that are parts of others, read in the vectors that are aligned where they lie."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import H200, check, expand, fusion, like, piece, total, unsqueeze, whole
from tests.schedule.segments import halves, segment_of
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.templates import draft
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.row_axes import RowAxes


def low(tv: TensorView) -> TensorView:
    """How much the elements of a row are below the largest of it."""
    top = expand(unsqueeze(call("max", tv, dims=(2,)), 2), *tv.shape)
    return total(call("sub", tv, top), 2)


def axes_of(x: TensorView, *results: TensorView) -> RowAxes:
    return rows.schedule(segment_of([x], *results), H200).axes


def test_rows_of_a_part_of_a_batch_begin_where_they_lie() -> None:
    x = halves(4, 335, 4099)
    axes = axes_of(x, total(piece(x, 1, 0, 334), 2))
    assert axes.begin_at is not None
    last = evaluate(axes.begin_at, {axes.group: 3 * 334 + 333})
    assert last == 4099 * (3 * 335 + 333)
    assert axes.is_covered
    assert axes_of(x, total(x, 2)).begin_at is None


def test_a_row_that_ends_with_memory_is_one_of_a_plane() -> None:
    x = halves(4, 335, 4099)
    assert axes_of(x, total(piece(x, 1, 1, 335), 2)).begin_at is None


def test_what_begins_in_two_places_is_put_together() -> None:
    x = halves(4, 335, 4099)
    both = call("mul", piece(x, 1, 0, 333), piece(x, 1, 1, 334))
    assert axes_of(x, total(both, 2)).begin_at is None


def test_its_vectors_are_loaded_as_they_lie() -> None:
    x = halves(4, 335, 4099)
    kernel = draft(segment_of([x], total(piece(x, 1, 0, 334), 2)), H200, False).lower(False)
    assert isinstance(kernel, RowKernel)
    assert {(a.access_bytes, a.window) for a in kernel.kept} == {(16, None)}


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("columns", [301, 1027, 8195 * 2 + 1])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_sums_of_parts_are_those_of_the_evaluator(columns: int, dtype: torch.dtype) -> None:
    x = whole(3, 5, columns, dtype=dtype)
    (tv,) = like(x)
    parts = piece(tv, 1, 0, 4), piece(piece(tv, 1, 1, 4), 2, 2, columns - 7)
    for part in parts:
        check(fusion([tv], call("max", part, dims=(2,)), low(part)), x, orders=ORDERS)
