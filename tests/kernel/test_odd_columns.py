"""Accesses of columns whose vectors lag behind them."""

from __future__ import annotations

from tests.codegen.test_odd_text import lagging
from tests.programs import H200
from tests.schedule.segments import segment_of
from tests.test_kept_kernels import spread
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.kernel.kept_columns import lower_kept_columns
from thunder_fuser.schedule import kept_columns


def test_vectors_of_the_plane_are_aligned_in_every_row() -> None:
    kernel = lagging(921, 48, 1517)
    (load,), (store,) = kernel.kept, kernel.full.stores
    assert (load.length, load.access_bytes) == (store.length, store.access_bytes) == (4, 8)
    assert load.window is None
    assert store.window is not None
    assert store.window.extent == 1517


def test_what_there_is_of_a_column_is_read_lane_by_lane() -> None:
    x, scale = tensor(DataType.BFloat16, 921, 48, 1517), tensor(DataType.Float, 921, 1517)
    wide = call("mul", call("cast", x, dtype=DataType.Float), spread(scale, x))
    below = call("sub", wide, spread(call("max", wide, dims=(1,)), wide))
    planned = kept_columns.schedule(segment_of([x, scale], below), H200)
    (load,) = lower_kept_columns(planned, strict=False).once
    assert load.lane is planned.axes.lane
    assert load.access_bytes == 4
