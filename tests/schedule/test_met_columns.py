"""Schedules of columns that meet."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import H200, expand, total, unsqueeze
from tests.schedule.segments import halves, segment_of
from thunder_fuser.analysis.reductions import MET
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import kept_columns
from thunder_fuser.schedule.rejected import Rejected


def meeting(x: TensorView) -> tuple[TensorView, ...]:
    """Each element less what its sample comes to, that, and what columns come to."""
    own = total(x, 1)
    met = call("sum", own, dims=(1,), **{MET: x.shape[2]})
    return call("sub", x, expand(unsqueeze(unsqueeze(met, 1), 1), *x.shape)), met, own


def test_a_phase_of_columns_and_one_in_which_they_meet() -> None:
    x = halves(300, 577, 96)
    assert str(kept_columns.schedule(segment_of([x], *meeting(x)), H200)) == dedent("""\
        kept columns over row{577}, vector{3600}, lane{8}
          6 threads across, 64 down, 2 blocks abreast, 2 blocks on a multiprocessor, \
converted anew in each phase
          phase 0: T1[(vector/12), 8*(vector%12) + lane] of \
T0[(vector/12), row, 8*(vector%12) + lane]
          phase 1, of 96 columns that meet: T2[(vector/12)] of \
T1[(vector/12), 8*(vector%12) + lane]
          store whole columns: T6[(vector/12), row, 8*(vector%12) + lane]
          store one element a column: T1[(vector/12), 8*(vector%12) + lane]
          store one element a sample: T2[(vector/12)]""")


def test_what_no_cluster_has_room_for_is_rejected() -> None:
    x = halves(300, 3001, 768)
    with pytest.raises(Rejected, match="no cluster has room for a sample"):
        kept_columns.schedule(segment_of([x], *meeting(x)), H200)


def test_vectors_are_of_one_sample() -> None:
    x = halves(300, 40, 36)
    found = kept_columns.schedule(segment_of([x], *meeting(x)), H200)
    assert found.axes.lanes == 4
