"""What the column template takes, and the threads that share a column."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs import H200, chain, cubin_of, expand, total, unsqueeze
from tests.schedule.segments import floats, halves, points, segment_of
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.kernel.templates import draft
from thunder_fuser.schedule import columns

x, y = floats(40, 64), floats(80, 64)
REFUSED = {
    "no reduction": (
        segment_of([x], chain(x, "neg")),
        "not reductions of one shape down the columns",
    ),
    "along rows": (segment_of([x], total(x, 1)), "not reductions of one shape down the columns"),
    "two shapes": (
        segment_of([x, y], total(x, 0), total(y, 0)),
        "not reductions of one shape down the columns",
    ),
    "another result": (
        segment_of([x, y], total(x, 0), chain(y, "neg")),
        "a result of shape [80, 64] is no 64 columns",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_its_reason(case: str) -> None:
    segment, reason = REFUSED[case]
    assert columns.reject(segment, H200) == reason


def test_a_result_without_elements_is_stored_by_nobody() -> None:
    found = columns.schedule(segment_of([x, y], total(x, 0), floats(0, 64)), H200)
    assert [s.value.shape for s, _ in found.stores] == [(64,)]


def test_an_in_place_target_is_updated_by_the_thread_that_owns_its_column() -> None:
    target = floats(64)
    segment = segment_of([x, target], writes=[(call("add", target, total(x, 0)), target)])
    assert columns.reject(segment, H200) is None


def test_a_complex_reduction_is_refused() -> None:
    z = tensor(DataType.ComplexFloat, 40, 64)
    assert columns.reject(segment_of([z], total(z, 0)), H200) == "a complex reduction"


def test_what_is_computed_on_the_way_is_stored_too() -> None:
    e = chain(x, "exp")
    schedule = columns.schedule(segment_of([x], e, chain(total(e, 0), "neg")), H200)
    assert [store.value for store, _ in schedule.full] == [e]
    assert [store.value.shape for store, _ in schedule.stores] == [(64,)]
    ((_, element),) = schedule.full
    assert element == schedule.terms[0][1]


@pytest.mark.parametrize(
    ("rows", "width", "across", "batch"),
    [
        (64, 8 * 132 * 128 * 2, 128, 8),  # columns enough
        (64, 8 * 132 * 128 * 2 - 2 * 128, 64, 8),
        (49, 1163 * 100, 32, 13),
        (64, 42 * 384, 32, 64),
        (3, 42 * 384, 32, 3),
    ],
)
def test_a_thread_loads_more_rows_of_running_sums_where_columns_are_few(
    rows: int, width: int, across: int, batch: int
) -> None:
    x = floats(rows, width)
    segment = segment_of([x], call("cumsum", x, dim=0, reverse=False))
    found = columns.schedule(segment, H200)
    assert (found.threads_across, found.threads_down, found.batch) == (across, 1, batch)


@pytest.mark.parametrize(
    ("rows", "width", "across", "down"),
    [
        (64, 4 * 32 * 3 * 132, 32, 8),  # blocks enough
        (64, 4 * 32 * 3 * 132 - 4 * 32, 16, 16),  # fewer columns each
        (33, 4 * 8 * 80, 8, 32),  # down to a line of memory
        (600, 4 * 8 * 65, 4, 128),  # to less, for half of the machine would have no block
        (33, 1024, 2, 32),
        (2000, 4096, 32, 8),  # blocks that share rows are as good
        (40, 4097, 32, 32),  # a line of single elements, and too few blocks: large ones
        (40, 64, 2, 32),
        (40, 12, 2, 32),
        (40, 7, 8, 32),  # no more threads across than it takes
    ],
)
def test_threads_across_and_down(rows: int, width: int, across: int, down: int) -> None:
    v = floats(rows, width)
    schedule = columns.schedule(segment_of([v], total(v, 0)), H200)
    assert (schedule.threads_across, schedule.threads_down) == (across, down)


@pytest.mark.parametrize(
    ("rows", "width", "splits"),
    [
        (1023, 4096, 1),  # few rows, as of the partial sums of a norm's gradient
        (1024, 4096, 8),
        (16384, 8192, 8),  # all blocks at once
        (1 << 20, 64, 512),
        (1 << 20, 4 * 32 * 16 * 132, 1),
        (1025, 4096, 8),
        (1280, 4 * 32, 10),
    ],
)
def test_rows_are_split_where_columns_are_few(rows: int, width: int, splits: int) -> None:
    v = floats(rows, width)
    schedule = columns.schedule(segment_of([v], total(v, 0)), H200)
    assert schedule.splits == splits
    assert (f"rows in {splits} splits" in str(schedule)) == (splits > 1)


def test_blocks_that_store_rows_too_take_several_turns() -> None:
    v = floats(16384, 8192)
    schedule = columns.schedule(segment_of([v], chain(v, "exp"), total(chain(v, "neg"), 0)), H200)
    assert schedule.splits == 16 * 132 // 64


@pytest.mark.parametrize(
    ("rows", "operands", "batch", "at_once"),
    [
        (16384, 1, 4, 3),
        (16384, 3, 2, 3),
        (16384, 9, 1, None),  # registers for one row of each
        (40, 1, 2, 3),  # no more than a thread has
    ],
)
def test_a_thread_loads_several_rows_at_a_time(
    rows: int, operands: int, batch: int, at_once: int | None
) -> None:
    inputs = [floats(rows, 8192) for _ in range(operands)]
    added = inputs[0]
    for v in inputs[1:]:
        added = call("add", added, v)
    schedule = columns.schedule(segment_of(inputs, total(added, 0)), H200)
    assert (schedule.batch, schedule.blocks_at_once) == (batch, at_once)


@pytest.mark.parametrize(
    ("dtype", "operands", "batch"),
    [
        (DataType.Float, 1, 16),
        (DataType.Float, 2, 16),
        (DataType.Half, 1, 4),
        (DataType.Half, 2, 4),
    ],
)
def test_of_odd_rows_of_words_it_loads_as_many_bytes(
    dtype: DataType, operands: int, batch: int
) -> None:
    inputs = [tensor(dtype, 16384, 8191) for _ in range(operands)]
    term = inputs[0] if operands == 1 else call("add", *inputs)
    schedule = columns.schedule(segment_of(inputs, total(term, 0)), H200)
    assert schedule.batch == batch


@pytest.mark.parametrize(("sums", "at_once"), [(1, 3), (2, 3), (3, 2), (4, 2)])
def test_blocks_that_sum_much_are_fewer_so_that_nothing_spills(sums: int, at_once: int) -> None:
    """Of two planes of halves, as in the gradient of a batch norm of features."""
    v, w, scale = halves(16384, 4096), halves(16384, 4096), floats(4096)
    rows = expand(unsqueeze(scale, 0), 16384, 4096)
    terms = [v, w, call("mul", v, w), call("mul", call("mul", v, w), rows)]
    segment = segment_of([v, w, scale], *(total(t, 0) for t in terms[4 - sums :]))
    found = columns.schedule(segment, H200)
    assert found.blocks_at_once == at_once
    assert cubin_of(draft(segment, H200, False).lower(False)).spill_bytes == 0


@pytest.mark.parametrize(
    ("width", "alignment", "lanes"),
    [(64, 16, 8), (64, 4, 2), (64, 2, 1), (36, 16, 4), (37, 16, 1)],
)
def test_lanes_divide_the_sizeand_every_address(width: int, alignment: int, lanes: int) -> None:
    v = halves(40, width)
    segment = segment_of([v], total(v, 0), lies={v: Layout(v.shape, (width, 1), alignment)})
    assert columns.schedule(segment, H200).axes.lanes == lanes


def test_lanes_are_those_of_the_plane_whatever_is_read_beside_it() -> None:
    v, of_rows, of_columns = halves(40, 64), floats(40), halves(64)
    terms = call("mul", call("mul", v, expand(unsqueeze(of_rows, 1), 40, 64)), of_columns)
    lies = {of_rows: Layout((40,), (1,), 4), of_columns: Layout((64,), (1,), 2)}
    segment = segment_of([v, of_rows, of_columns], total(terms, 0), lies=lies)
    assert columns.schedule(segment, H200).axes.lanes == 8


@pytest.mark.parametrize(
    ("shape", "strides", "lanes"),
    [
        ((40, 8, 3), (24, 3, 1), 4),  # rows of 3 do not divide by 4, but 24 columns do
        ((40, 8, 3), (32, 4, 1), 1),  # and lie apart
        ((40, 8, 6), (64, 8, 1), 2),
        ((40, 5, 7), (35, 7, 1), 1),
        ((40, 14, 14), (392, 28, 2), 4),  # only what is stored does
        ((40, 6, 7, 2), (84, 14, 2, 1), 4),
    ],
)
def test_a_vector_has_sizeof_several_dims_where_they_lie_side_by_side(
    shape: tuple[int, ...], strides: tuple[int, ...], lanes: int
) -> None:
    v = floats(*shape)
    segment = segment_of([v], total(v, 0), lies={v: Layout(shape, strides, 16)})
    assert columns.schedule(segment, H200).axes.lanes == lanes


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    outer=st.integers(1, 4),
    terms=st.integers(33, 50),
    width=st.integers(2, 40),
    dtype=st.sampled_from([DataType.BFloat16, DataType.Float, DataType.Double]),
)
def test_every_term_is_reduced_and_every_column_stored_once(
    outer: int, terms: int, width: int, dtype: DataType
) -> None:
    v = tensor(dtype, outer, terms, width)
    schedule = columns.schedule(segment_of([v], total(v, 1)), H200)
    axes = schedule.axes
    kept = [axes.vector, *([axes.lane] if axes.lane else [])]
    ((_, term),), ((_, stored),) = schedule.terms, schedule.stores
    read = [tuple(evaluate(f, p) for f in term) for p in points([axes.row, *kept])]
    assert sorted(read) == [
        (o, t, w) for o in range(outer) for t in range(terms) for w in range(width)
    ]
    written = [tuple(evaluate(f, p) for f in stored) for p in points(kept)]
    assert sorted(written) == [(o, w) for o in range(outer) for w in range(width)]
    for point in points([axes.row, *kept]):
        (o, _, w), column = (tuple(evaluate(f, point) for f in i) for i in (term, stored))
        assert (o, w) == column
