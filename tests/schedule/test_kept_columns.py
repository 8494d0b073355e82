"""What the kept column template takes, and the tile of columns that a block keeps."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs import H200, chain, expand, flip, pad, total, unsqueeze
from tests.schedule.segments import floats, integers, points, segment_of
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel import templates
from thunder_fuser.schedule import columns, kept_columns
from thunder_fuser.segment.segment import Segment


def spread(reduced: TensorView, over: TensorView) -> TensorView:
    """One value per column, at every element of it."""
    return expand(unsqueeze(reduced, over.ndim - 2), *over.shape)


def centred(x: TensorView) -> TensorView:
    return call("sub", x, spread(total(x, x.ndim - 2), x))


def twice(x: TensorView) -> TensorView:
    """Less its sums, over the largest of what is left: two levels."""
    left = centred(x)
    return call("div", left, spread(call("max", left, dims=(x.ndim - 2,)), x))


x, y, z = floats(40, 64), floats(80, 64), tensor(DataType.ComplexFloat, 40, 64)
places = integers(40)
REFUSED = {
    "no reduction": (
        segment_of([x], chain(x, "neg")),
        "not reductions of one shape down the columns",
    ),
    "two shapes": (
        segment_of([x, y], centred(x), centred(y)),
        "not reductions of one shape down the columns",
    ),
    "complex": (segment_of([z], centred(z)), "a complex reduction"),
    "a running sum": (
        segment_of([x], centred(call("cumsum", x, dim=0, reverse=False))),
        "a running sum down columns that are kept",
    ),
    "another column": (
        segment_of([x], call("sub", x, flip(spread(total(x, 0), x), 1))),
        "a column sum is read at another column",
    ),
    "another result": (
        segment_of([x, y], centred(x), chain(y, "neg")),
        "a result of shape [80, 64] is no 64 columns",
    ),
    "a window": (
        segment_of([x], centred(pad(x, (0, 0, 1, 1)))),
        "columns that are kept are read through windows",
    ),
    "a loaded index": (
        segment_of([y, places], centred(call("index_select", y, places, dim=0))),
        "columns that are kept are read at an index that a tensor holds",
    ),
    "nothing to keep": (
        (lambda row: segment_of([row], centred(expand(unsqueeze(row, 1), 40, 64))))(floats(40)),
        "columns of which nothing is in memory",
    ),
    "too many rows": (
        (lambda long: segment_of([long], centred(long)))(floats(10000, 64)),
        "columns that are too long to be kept",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_its_reason(case: str) -> None:
    segment, reason = REFUSED[case]
    assert kept_columns.reject(segment, H200) == reason


def test_a_result_of_a_column_may_be_read_at_an_index_that_a_tensor_holds() -> None:
    """As the class of a cross entropy: in memory, not in the registers that keep the plane."""
    at = tensor(DataType.Int, 1, 64)
    chosen = call("take_along_axis", x, at, dim=0)
    largest = unsqueeze(call("max", x, dims=(0,)), 0)
    segment = segment_of([x, at], call("sub", chosen, largest), centred(x))
    assert kept_columns.reject(segment, H200) is None
    written = segment_of([x, at], call("sub", chosen, largest), writes=[(centred(x), x)])
    refused = "an in-place target is read by others than the thread that writes it"
    assert kept_columns.reject(written, H200) == refused


def test_what_needs_columns_whole_comes_in_phases() -> None:
    v = floats(256, 64)
    assert str(kept_columns.schedule(segment_of([v], twice(v)), H200)) == dedent("""\
        kept columns over row{256}, vector{16}, lane{4}
          2 threads across, 64 down
          phase 0: T1[4*vector + lane] of T0[row, 4*vector + lane]
          phase 1: T5[4*vector + lane] of T4[row, 4*vector + lane]
          store whole columns: T8[row, 4*vector + lane]""")


def template_of(segment: Segment) -> object:
    return templates.draft(segment, H200, strict=False).template.schedule


def test_columns_whose_sums_are_only_stored_are_walked() -> None:
    assert template_of(segment_of([x], total(x, 0))) is columns.schedule
    assert template_of(segment_of([x], chain(x, "exp"), total(x, 0))) is columns.schedule
    assert template_of(segment_of([x], centred(x))) is kept_columns.schedule


def test_a_plane_may_be_updated_by_the_threads_that_keep_it() -> None:
    segment = segment_of([x], total(x, 0), writes=[(centred(x), x)])
    assert kept_columns.reject(segment, H200) is None


@pytest.mark.parametrize(
    "value",
    [
        lambda a, t: call("add", centred(a), flip(t, 0)),
        lambda a, t: call("add", centred(a), flip(t, 1)),
    ],
)
def test_a_plane_that_others_read_is_not_updated(
    value: Callable[[TensorView, TensorView], TensorView],
) -> None:
    target = floats(40, 64)
    segment = segment_of([x, target], writes=[(value(x, target), target)])
    refused = kept_columns.reject(segment, H200)
    assert refused == "an in-place target is read by others than the thread that writes it"


def test_a_value_of_a_column_that_its_rows_need_is_not_updated() -> None:
    target = floats(64)
    made, updated = call("add", centred(x), spread(target, x)), call("add", target, total(x, 0))
    segment = segment_of([x, target], made, writes=[(updated, target)])
    refused = kept_columns.reject(segment, H200)
    assert refused == "an in-place target is read by others than the thread that writes it"
    alone = segment_of([x, target], centred(x), writes=[(updated, target)])
    assert kept_columns.reject(alone, H200) is None


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    outer=st.integers(1, 4),
    terms=st.integers(33, 50),
    width=st.integers(2, 40),
    dtype=st.sampled_from([DataType.BFloat16, DataType.Float, DataType.Double]),
)
def test_every_element_is_stored_once_with_the_sums_of_its_column(
    outer: int, terms: int, width: int, dtype: DataType
) -> None:
    v = tensor(dtype, outer, terms, width)
    schedule = kept_columns.schedule(segment_of([v], twice(v)), H200)
    axes = schedule.axes
    kept = [axes.row, axes.vector, *([axes.lane] if axes.lane else [])]
    ((_, stored),) = schedule.full
    written = [tuple(evaluate(f, p) for f in stored) for p in points(kept)]
    assert sorted(written) == [
        (o, t, w) for o in range(outer) for t in range(terms) for w in range(width)
    ]
    for phase in schedule.phases:
        ((_, column),) = phase.reductions
        for point in points(kept):
            (o, _, w), own = (tuple(evaluate(f, point) for f in i) for i in (stored, column))
            assert (o, w) == own
