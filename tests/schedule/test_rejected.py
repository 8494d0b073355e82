"""The reason for which a template rejects a segment, and the errors that are no reason."""

from __future__ import annotations

import pytest

from tests.programs import H200, chain
from tests.schedule.segments import floats, segment_of
from thunder_fuser.schedule.rejected import Rejected, rejecting
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import Target

X = floats(3, 5)
SEGMENT = segment_of([X], chain(X, "neg"))


def test_the_reason_is_the_text_of_the_exception() -> None:
    def schedule(segment: Segment, target: Target) -> None:
        raise Rejected(f"{len(segment.stores)} store on {target.kind}")

    assert rejecting(schedule)(SEGMENT, H200) == "1 store on cuda"


def test_a_schedule_that_returns_is_no_rejection() -> None:
    def schedule(segment: Segment, target: Target) -> None:
        pass

    assert rejecting(schedule)(SEGMENT, H200) is None


def test_an_error_of_the_schedule_is_raised() -> None:
    def schedule(segment: Segment, target: Target) -> None:
        raise KeyError("an axis")

    with pytest.raises(KeyError, match="an axis"):
        rejecting(schedule)(SEGMENT, H200)
