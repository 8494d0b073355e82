"""What the row template takes, its levels of reductions, and the threads of a row."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs import H200, chain, expand, flip, full, ints, piece, reshape, total, unsqueeze
from tests.schedule.segments import floats, halves, points, segment_of
from tests.schedule.test_sides import dealt
from thunder_fuser.analysis.digits import Form, atom, evaluate, unflatten
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import apply, call, tensor
from thunder_fuser.ir.domain import IterDomain, axis
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops.reductions import SQUARED_DEVIATION
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.parameters import RowParameters
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import HOST


def along(reduced: TensorView, columns: int) -> TensorView:
    """One value per row, for every column of it."""
    (count,) = reduced.shape
    return call("broadcast_in_dim", reduced, shape=ints([count, columns]), broadcast_dims=(0,))


def centred(x: TensorView) -> TensorView:
    return call("sub", x, along(total(x, 1), x.shape[1]))


def softmax(x: TensorView) -> TensorView:
    columns = x.shape[1]
    e = chain(call("sub", x, along(call("max", x, dims=(1,)), columns)), "exp")
    return call("div", e, along(total(e, 1), columns))


def test_each_level_of_reductions_is_a_phase() -> None:
    x = floats(8, 64)
    schedule = rows.schedule(segment_of([x], softmax(x), total(x, 1)), H200)
    names = schedule.segment.names
    levels = [[names[tv] for tv, _ in phase.reductions] for phase in schedule.phases]
    ops = {names[tv]: tv.definition.op.name for tv in schedule.segment.tensors if tv.definition}
    assert [[ops[name] for name in level] for level in levels] == [["max", "sum"], ["sum"]]


def test_a_sum_of_sums_of_the_same_row_needs_a_second_phase() -> None:
    x = floats(8, 64)
    middle = centred(x)
    schedule = rows.schedule(segment_of([x], total(call("mul", middle, middle), 1)), H200)
    assert [len(phase.reductions) for phase in schedule.phases] == [1, 1]


x, y = floats(8, 64), floats(40, 128)
REFUSED = {
    "no long reduction": (
        segment_of([x], chain(x, "neg")),
        "no reduction along rows that is longer than a thread sums in registers",
    ),
    "columns": (
        segment_of([y], total(y, 0)),
        "no reduction along rows that is longer than a thread sums in registers",
    ),
    "two planes": (
        segment_of([x, y], total(x, 1), total(y, 1)),
        "reductions over several planes: ['(40, 128)', '(8, 64)']",
    ),
    "another row": (
        segment_of([x], call("sub", x, flip(along(total(x, 1), 64), 0))),
        "a reduction is read at another row than it belongs to",
    ),
    "another shape": (
        segment_of([x], centred(x), chain(piece(x, 1, 0, 16), "neg")),
        "a result of shape [8, 16] has no rows of 64 elements",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_its_reason(case: str) -> None:
    segment, reason = REFUSED[case]
    assert rows.reject(segment, H200) == reason


def test_the_blocks_of_a_cluster_have_one_row_however_large_they_may_be() -> None:
    x = floats(64, 32768)
    segment = segment_of([x], centred(x))
    found = {n: rows.schedule(segment, H200, RowParameters(block=n)) for n in (128, 256, 1024)}
    assert {schedule.residency.cluster for schedule in found.values()} == {4}
    assert {schedule.rows_per_block for schedule in found.values()} == {1}


def test_a_complex_reduction_is_refused() -> None:
    z = tensor(DataType.ComplexFloat, 8, 64)
    assert rows.reject(segment_of([z], total(z, 1)), H200) == "a complex reduction"


def test_a_row_may_be_written_in_place_where_it_is_read_but_not_turned_around() -> None:
    v = floats(8, 64)
    assert rows.reject(segment_of([v], writes=[(centred(v), v)]), H200) is None
    turned = flip(centred(v), 1)
    assert rows.reject(segment_of([v], writes=[(turned, v)]), H200) == (
        "an in-place target is read by others than the thread that writes it"
    )


@pytest.mark.parametrize(
    ("columns", "threads", "rows_per_block", "held"),
    [
        (33, 2, 64, True),  # a prime: one lane, 32 elements a thread
        (64, 8, 16, True),  # a vector a thread of what is stored
        (96, 4, 32, True),  # three, of which no thread has fewer
        (128, 16, 8, True),
        (136, 8, 16, True),
        (4096, 128, 1, True),
        (8192, 256, 1, True),  # 32 elements a thread up to here
        (16384, 256, 1, True),  # twice as many in longer rows
        (65536, 1024, 1, False),  # of four blocks, which hold it in shared memory
        (1 << 20, 16384, 1, False),  # of sixteen
        (1 << 21, 1024, 1, False),  # more than a cluster holds
    ],
)
def test_threads_of_a_row(columns: int, threads: int, rows_per_block: int, held: bool) -> None:
    v = halves(4, columns)
    found = rows.schedule(segment_of([v], centred(v)), H200)
    is_held = found.residency.registers == {v}
    assert (found.threads_per_row, found.rows_per_block, is_held) == (threads, rows_per_block, held)


@pytest.mark.parametrize(("columns", "cluster"), [(4096, 1), (65536, 8)])
def test_a_row_without_others_is_kept_too(columns: int, cluster: int) -> None:
    v = halves(1, columns)
    found = rows.schedule(segment_of([v], centred(v)), H200).residency
    assert found.registers | found.shared == {v}
    assert found.cluster == cluster


def test_a_row_of_which_nothing_is_read_has_no_cluster() -> None:
    ones = full(1.0, 3, 70_000)
    found = rows.schedule(segment_of([], centred(ones)), H200).residency
    assert (found.cluster, found.registers, found.shared) == (1, frozenset(), frozenset())


def test_column_sums_and_scans_and_single_walks_have_no_clusters() -> None:
    v = halves(512, 20000)
    beside_sums = rows.schedule(with_column_sums(v, 8), H200)
    walked_once = rows.schedule(segment_of([v], total(v, 1)), H200)
    summed = rows.schedule(segment_of([v], call("cumsum", v, dim=1, reverse=False)), H200)
    assert [s.residency.cluster for s in (beside_sums, walked_once, summed)] == [1, 1, 1]


@pytest.mark.parametrize(
    ("columns", "alignment", "lanes"),
    [(64, 16, 8), (64, 8, 4), (64, 2, 1), (36, 16, 4), (37, 16, 1), (34, 16, 2)],
)
def test_lanes_divide_the_row_and_every_address(columns: int, alignment: int, lanes: int) -> None:
    v = halves(4, columns)
    segment = segment_of([v], centred(v), lies={v: Layout(v.shape, (columns, 1), alignment)})
    assert rows.schedule(segment, H200).axes.lanes == lanes


def test_an_operand_smaller_than_the_plane_does_not_narrow_the_lanes() -> None:
    v, weight = halves(4, 64), halves(64)
    segment = segment_of(
        [v, weight], call("mul", centred(v), weight), lies={weight: Layout((64,), (1,), 2)}
    )
    assert rows.schedule(segment, H200).axes.lanes == 8


def with_column_sums(v: TensorView, groups: int, *more: TensorView) -> Segment:
    """Rows centred, and sums down the columns of each of `groups` groups of rows."""
    count, columns = v.shape
    parts = reshape(v, groups, count // groups, columns)
    return segment_of([v], centred(v), total(parts, 1), *more)


def test_a_block_walks_the_rows_of_its_column_sums() -> None:
    schedule = rows.schedule(with_column_sums(floats(512, 1024), 8), H200)
    assert (schedule.axes.group.size, schedule.axes.turn.size) == (8, 64)
    assert schedule.rows_per_block == 1
    assert len(schedule.columns.reductions) == len(schedule.columns.stores) == 1


@pytest.mark.parametrize(
    ("run", "row"), [(1, "8*turn + group"), (4, "32*(turn/4) + 4*group + (turn%4)")]
)
def test_a_block_walks_the_rows_that_its_column_sums_deal_it(run: int, row: str) -> None:
    v = floats(512, 1024)
    dealt = reshape(v, 64 // run, 8, run, 1024)
    mine = call("permute", dealt, dims=(1, 0, 2, 3))
    schedule = rows.schedule(segment_of([v], centred(v), total(mine, 1, 2)), H200)
    assert (schedule.axes.group.size, schedule.axes.turn.size) == (8, 64)
    assert f"phase 0: T1[{row}] of T0[{row}, 4*vector + lane]" in str(schedule)


def test_column_sums_of_different_groups_are_refused() -> None:
    v = floats(512, 1024)
    other = total(reshape(v, 4, 128, 1024), 1)
    assert rows.reject(with_column_sums(v, 8, other), H200) == "column sums of [64, 128] terms"


def test_a_column_sum_that_is_used_at_once_is_refused() -> None:
    v = floats(512, 1024)
    used = expand(unsqueeze(total(reshape(v, 8, 64, 1024), 1), 1), 8, 64, 1024)
    segment = segment_of([v], centred(v), call("mul", used, reshape(v, 8, 64, 1024)))
    assert rows.reject(segment, H200) == "a column sum is read before all blocks are done"


def test_a_column_sum_of_more_than_one_number_is_refused() -> None:
    """Blocks that walk rows store what they added up; a variance follows from that."""
    v = floats(512, 1024)
    variance = apply(SQUARED_DEVIATION, [reshape(v, 8, 64, 1024)], {"dims": (1,)})
    assert isinstance(variance, TensorView)
    segment = segment_of([v], centred(v), variance)
    assert rows.reject(segment, H200) == "a column sum of more than one number"


@pytest.mark.parametrize("stored", [True, False])
def test_rows_of_what_column_sums_give_are_refused(stored: bool) -> None:
    """Such sums of a softmax down columns would be read before they are known, stored or not."""
    v = floats(512, 1024)
    groups = reshape(v, 8, 64, 1024)
    e = chain(groups, "exp")
    sums = total(e, 1)
    divided = call("div", e, expand(unsqueeze(sums, 1), 8, 64, 1024))
    segment = segment_of([v], total(divided, 2), *[sums][: int(stored)])
    assert rows.reject(segment, H200) == "a column sum is read before all blocks are done"


def test_rows_of_other_blocks_may_not_read_what_a_column_sum_replaces() -> None:
    x, w = floats(1024, 64), floats(8, 64)
    scaled = call("mul", x, expand(piece(w, 0, 0, 1), 1024, 64))
    segment = segment_of([x, w], total(scaled, 1), writes=[(dealt(x, 8, 32), w)])
    assert rows.reject(segment, HOST) == (
        "an in-place target is read by others than the thread that writes it"
    )


def test_what_follows_from_a_column_sum_alone_is_stored_in_its_place() -> None:
    v = floats(512, 1024)
    used = chain(total(reshape(v, 8, 64, 1024), 1), "exp")
    schedule = rows.schedule(segment_of([v], centred(v), reshape(used, 2, 4, 1024)), H200)
    assert "store one element a column: T7[(group/4), (group%4), 4*vector + lane]" in str(schedule)


def test_a_result_that_is_repeated_over_the_rows_is_refused() -> None:
    """Its elements are read at several rows: none of them is to store it."""
    x = floats(2, 64)
    turned = chain(x, "neg")
    spread = expand(reshape(turned, 2, 1, 64), 2, 5, 64)
    segment = segment_of([x], total(spread, 2), turned)
    assert rows.reject(segment, H200) == "a result of shape [2, 64] has no rows of 64 elements"


def test_column_sums_beside_rows_beyond_a_cluster_are_refused() -> None:
    assert rows.reject(with_column_sums(floats(64, 400000), 1), H200) == (
        "column sums beside rows that are too long to be walked"
    )


@given(shape=st.lists(st.integers(1, 5), max_size=4))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_unflatten_is_row_major_order(shape: list[int]) -> None:
    linear = axis(prod(shape))
    index = unflatten(atom(linear), shape)
    found = [tuple(evaluate(f, {linear: k}) for f in index) for k in range(linear.size)]
    assert found == sorted(found)
    assert len(set(found)) == linear.size
    assert all(0 <= k < n for point in found for k, n in zip(point, shape, strict=True))


@settings(max_examples=30, deadline=None, derandomize=True)
@given(
    count=st.integers(1, 6),
    columns=st.integers(33, 80),
    dtype=st.sampled_from([DataType.BFloat16, DataType.Float, DataType.Double]),
)
def test_every_term_is_reduced_and_every_element_stored_once(
    count: int, columns: int, dtype: DataType
) -> None:
    v = tensor(dtype, count, columns)
    schedule = rows.schedule(segment_of([v], centred(v), total(v, 1)), H200)
    axes = schedule.axes
    inner = [axes.group, axes.turn, axes.vector, *([axes.lane] if axes.lane else [])]
    every = [(r, c) for r in range(count) for c in range(columns)]
    ((_, full),), ((_, single),) = schedule.full, schedule.single
    (_, term), *_ = schedule.phases[0].terms
    met = [
        point
        for point in points(inner)
        if all(0 <= evaluate(w.form, point) < w.extent for w in axes.inside)
    ]
    for index in (term, full):
        assert sorted(at(index, point) for point in met) == every
    firsts = [at(single, point) for point in points([axes.group, axes.turn])]
    assert sorted(firsts) == [(r,) for r in range(count)]


def at(index: tuple[Form, ...], point: dict[IterDomain, int]) -> tuple[int, ...]:
    return tuple(evaluate(f, point) for f in index)


@pytest.mark.parametrize(("width", "lanes"), [(64, 8), (196, 4), (49, 1), (50, 2)])
def test_vectors_stay_within_the_stretch_of_a_scattered_row(width: int, lanes: int) -> None:
    x = halves(16, 5, width)
    assert rows.schedule(segment_of([x], total(x, 0, 2)), H200).axes.lanes == lanes
