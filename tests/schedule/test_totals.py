"""What is done behind all rows, and what cannot be."""

from __future__ import annotations

import pytest

from tests.programs import H200, chain, expand, permute, piece, reshape, total
from tests.schedule.segments import floats, halves, segment_of
from tests.schedule.test_streams import denominator
from thunder_fuser.ir.build import call
from thunder_fuser.schedule import rows, streams
from thunder_fuser.segment.segment import Segment


def test_a_row_schedule_tells_what_follows_all_rows() -> None:
    x = floats(60, 64)
    row = chain(total(x, 1), "neg")
    segment = segment_of([x], row, chain(call("max", row, dims=(0,)), "exp"))
    assert str(rows.schedule(segment, H200)).splitlines()[-3:] == [
        "  over all rows: T3[] of T2[group]",
        "  store one element a row: T2[group]",
        "  store once: T4[]",
    ]


def test_streamed_rows_are_summed_too() -> None:
    x = halves(600, 40000)
    segment = segment_of([x], total(chain(denominator(x), "log"), 0))
    assert streams.reject(segment, H200) is None
    assert "  over all rows: T8[] of T7[group]" in str(streams.schedule(segment, H200)).splitlines()


def test_a_result_of_several_names_is_stored_once_for_each() -> None:
    x = floats(5, 12, 64)
    row = total(x, 2)
    whole = total(row, 0, 1)
    segment = segment_of([x], whole, reshape(whole, 1, 1))
    (behind,) = [line for line in str(rows.schedule(segment, H200)).splitlines() if "once" in line]
    assert behind == "  store once: T2[], T3[0, 0]"


def unbound() -> dict[str, tuple[Segment, str]]:
    x, n, w = floats(40, 64), floats(1), floats(40)
    row = total(x, 1)
    whole = total(row, 0)
    share = call("div", row, expand(reshape(whole, 1), 40))
    again = total(call("sub", x, expand(reshape(whole, 1, 1), 40, 64)), 1)
    turned = floats(5, 8, 64)
    sums = total(permute(total(turned, 2), 1, 0), 0, 1)
    return {
        "at every row": (
            segment_of([x], share),
            "a sum over all rows is read at several places",
        ),
        "in every row": (segment_of([x], again), "a row needs a sum over all rows"),
        "beside a row": (
            segment_of([x], call("sub", piece(row, 0, 0, 1), reshape(whole, 1))),
            "a row is read beside a sum over all rows",
        ),
        "beside columns": (
            segment_of([x], whole, total(x, 0)),
            "a sum over all rows beside column sums",
        ),
        "of turned rows": (
            segment_of([turned], sums),
            "a reduction is read at another row than it belongs to",
        ),
        "beside what rows write": (
            segment_of(
                [x, w],
                call("add", reshape(whole, 1), piece(w, 0, 3, 4)),
                writes=[(call("add", row, w), w)],
            ),
            "what rows write in place is read behind them",
        ),
        "what rows do not make": (
            segment_of([x, n], whole, chain(n, "neg")),
            "a result of shape [1] has no rows of 64 elements",
        ),
    }


@pytest.mark.parametrize("name", unbound())
def test_a_refusal_names_its_reason(name: str) -> None:
    segment, reason = unbound()[name]
    assert rows.reject(segment, H200) == reason
