"""Which rows are streamed, and which stay with the row template."""

from __future__ import annotations

import pytest

from tests.analysis.test_precision import below_max
from tests.programs import H200, chain, expand, total, unsqueeze
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import streams

LONG = 40000


def denominator(x: TensorView, guarded: bool = False) -> TensorView:
    return total(chain(below_max(x, guarded), "exp"), 1)


def softmax(x: TensorView) -> TensorView:
    terms = chain(below_max(x), "exp")
    return call("div", terms, expand(unsqueeze(total(terms, 1), 1), *x.shape))


@pytest.mark.parametrize("guarded", [False, True])
def test_the_sum_below_the_maximum_of_a_long_row_is_streamed(guarded: bool) -> None:
    x = halves(600, LONG)
    segment = segment_of([x], chain(denominator(x, guarded), "log"))
    assert streams.reject(segment, H200) is None
    assert str(streams.schedule(segment, H200)).splitlines()[:2] == [
        "stream of rows over group{600}, turn{1}, vector{5000}, lane{8}, "
        "T0 in registers, 4 vectors at a time",
        "  256 threads a row, 1 rows a block",
    ]


def test_few_rows_have_as_many_threads_as_a_block_can() -> None:
    x = halves(6, LONG)
    assert streams.schedule(segment_of([x], denominator(x)), H200).rows.threads_per_row == 1024


@pytest.mark.parametrize(
    ("count", "columns", "expected"),
    [
        (1335, 50256, (512, 2)),  # 1056 blocks of 256 threads at a time, and 279
        (2097, 32000, (256, 4)),
        (1056, 63552, (256, 4)),
        (671, 100000, (256, 4)),
        (8192, 32000, (256, 4)),
    ],
)
def test_the_last_rows_do_not_leave_most_of_the_machine_idle(
    count: int, columns: int, expected: tuple[int, int]
) -> None:
    x = halves(count, columns)
    found = streams.schedule(segment_of([x], denominator(x)), H200)
    assert (found.rows.threads_per_row, found.chunk) == expected


def test_other_reductions_of_the_row_come_along() -> None:
    x = halves(6, LONG)
    assert streams.reject(segment_of([x], denominator(x), total(x, 1)), H200) is None


SUMS = "the second phase is not sums of exp(x - max(x))"


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (lambda x: total(chain(x, "exp"), 1), "not two phases of reductions along rows"),
        (lambda x: total(chain(below_max(x), "abs"), 1), SUMS),
        (lambda x: call("max", chain(below_max(x), "exp"), dims=(1,)), SUMS),
        (lambda x: total(call("mul", chain(below_max(x), "exp"), x), 1), SUMS),
    ],
    ids=["one phase", "no exponential", "no sum", "weighted"],
)
def test_a_refusal_names_its_reason(program: object, reason: str) -> None:
    assert callable(program)
    x = halves(6, LONG)
    assert streams.reject(segment_of([x], program(x)), H200) == reason


@pytest.mark.parametrize(
    ("columns", "reason"), [(16384, None), (16376, "rows that the registers hold")]
)
def test_a_short_row_stays_in_registers(columns: int, reason: str | None) -> None:
    x = halves(6, columns)
    assert streams.reject(segment_of([x], denominator(x)), H200) == reason


@pytest.mark.parametrize(
    ("columns", "reason"),
    [(LONG, "whole rows are stored, and the multiprocessor holds them"), (1 << 21, None)],
)
def test_a_whole_row_that_the_multiprocessor_holds_is_no_stream(
    columns: int, reason: str | None
) -> None:
    x = halves(6, columns)
    assert streams.reject(segment_of([x], softmax(x)), H200) == reason


def test_four_byte_rows_are_long_at_half_the_length() -> None:
    x = floats(6, 8192)
    assert streams.reject(segment_of([x], denominator(x)), H200) is None
