"""Schedules of rows that meet in a block."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import H200, expand, reshape, total
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.analysis.reductions import MET
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.rejected import Rejected
from thunder_fuser.schedule.row_schedule import RowSchedule


def meeting(x: TensorView) -> tuple[TensorView, TensorView]:
    """Rows (image, group, channel) of x less the sum of their group, and their own sums."""
    images, groups, channels, _ = x.shape
    own = total(x, 3)
    met = call("sum", own, dims=(2,), **{MET: channels})
    spread = expand(reshape(met, images, groups, 1, 1), *x.shape)
    return call("sub", x, spread), own


def scheduled(x: TensorView) -> RowSchedule:
    return rows.schedule(segment_of([x], *meeting(x)), H200)


def test_a_block_has_the_rows_of_a_group_and_a_phase_in_which_they_meet() -> None:
    assert str(scheduled(floats(30, 4, 8, 784))) == dedent("""\
        rows over group{960}, turn{1}, vector{392}, lane{2}, T0 in registers
          32 threads a row, 8 rows a block
          phase 0: T1[(group/32), ((group/8)%4), (group%8)] of \
T0[(group/32), ((group/8)%4), (group%8), 2*vector + lane]
          phase 1, of 8 rows that meet: T2[(group/32), ((group/8)%4)] of \
T1[(group/32), ((group/8)%4), (group%8)]
          store whole rows: T5[(group/32), ((group/8)%4), (group%8), 2*vector + lane]
          store one element a row: T1[(group/32), ((group/8)%4), (group%8)]""")


def test_a_block_has_whole_groups_of_short_rows_whose_threads_fill_its_warps() -> None:
    found = scheduled(floats(30, 4, 5, 36))
    assert found.residency.threads == 2
    assert found.rows_per_block == 5 * 16


def test_odd_short_rows_come_through_shared_memory() -> None:
    assert scheduled(halves(30, 4, 8, 49)).is_staged
    assert scheduled(halves(30, 2, 75, 49)).is_staged
    assert scheduled(floats(30, 4, 8, 49)).is_staged
    assert not scheduled(halves(30, 4, 8, 784)).is_staged


def test_what_fits_no_block_is_shared_by_a_cluster() -> None:
    _, second, *_ = str(scheduled(halves(30, 4, 10, 4096))).splitlines()
    assert second == "  4 blocks of 32 threads a row, 10 rows a block"
    assert not scheduled(halves(30, 4, 10, 4096)).is_staged


def test_what_fits_no_cluster_is_rejected() -> None:
    with pytest.raises(Rejected, match="40 rows that meet, which are more than a block holds"):
        scheduled(floats(30, 4, 40, 16384))


def test_odd_rows_have_no_cluster() -> None:
    """How many vectors they meet is not known where sums are told to meet."""
    with pytest.raises(Rejected, match="10 rows that meet, which are more than a block holds"):
        scheduled(halves(30, 4, 10, 10001))


def test_sums_over_all_rows_are_rejected_beside_it() -> None:
    x = floats(30, 4, 8, 784)
    with pytest.raises(Rejected, match="rows that meet beside sums over all of them"):
        rows.schedule(segment_of([x], *meeting(x), total(total(x, 3), 0, 1, 2)), H200)
