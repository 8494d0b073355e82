"""What the group template takes, and the threads and rows of a block."""

from __future__ import annotations

import pytest

from tests.programs import H200, chain, ints, pad, permute, reshape, total
from tests.schedule.segments import floats, halves, integers, segment_of
from thunder_fuser.analysis.digit_stages import stages_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.split_orders import in_stages
from thunder_fuser.schedule import groups
from thunder_fuser.segment.segment import Segment


def summed(x: TensorView, order: TensorView, ends: TensorView, dim: int = 0) -> TensorView:
    return call("group_sum", x, order, ends, dim=dim, skip=-1)


x, order, ends, others = floats(60, 24), integers(60), integers(9), integers(9)
given = [x, order, ends]
REFUSED = {
    "no sum": (segment_of([x], chain(x, "neg")), "not sums of groups, or others beside them"),
    "another sum": (
        segment_of(given, summed(x, order, ends), total(x, 0)),
        "not sums of groups, or others beside them",
    ),
    "other groups": (
        segment_of([*given, others], summed(x, order, ends), summed(x, order, others)),
        "sums of groups of different shapes or orders",
    ),
    "two levels": (
        segment_of([*given, integers(9)], summed(summed(x, order, ends), others, ends)),
        "sums of groups of different shapes or orders",
    ),
    "another result": (
        segment_of(given, summed(x, order, ends), chain(x, "neg")),
        "a result of shape [60, 24] beside sums [9, 24]",
    ),
    "another element": (
        segment_of(given, chain(permute(summed(x, order, ends), 1, 0), "neg")),
        "a sum of groups is read at another place than it belongs to",
    ),
    "ends of the same segment": (
        segment_of(given, summed(x, order, chain(ends, "neg"))),
        "the ends of the groups are not in memory",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_names_its_reason(case: str) -> None:
    segment, reason = REFUSED[case]
    assert groups.reject(segment, H200) == reason


def test_an_in_place_target_is_updated_by_the_thread_that_owns_its_element() -> None:
    target = floats(9, 24)
    added = call("add", target, summed(x, order, ends))
    assert groups.reject(segment_of([*given, target], writes=[(added, target)]), H200) is None


def test_an_in_place_target_that_others_read_is_refused() -> None:
    target, own, few = floats(9, 24), integers(9), integers(9)
    made = call("add", target, summed(target, own, few))
    assert groups.reject(segment_of([target, own, few], writes=[(made, target)]), H200) == (
        "an in-place target is read by others than the thread that writes it"
    )


@pytest.mark.parametrize(
    ("rows", "width", "across", "parts", "each"),
    [
        (128256, 4096, 32, 8, 32),  # many blocks: four rows a part
        (9, 24, 3, 32, 32),  # no more threads across than vectors, and parts than a warp's
        (9, 7, 7, 32, 32),  # a prime has one lane
        (335544, 200, 25, 10, 40),  # parts lie across warps, none of whose threads idle
        (167772, 800, 25, 10, 40),  # so do the parts of each of four blocks along a row
        (500, 1024, 32, 8, 8),  # few blocks: a row a part
    ],
)
def test_threads_and_rows_of_a_block(
    rows: int, width: int, across: int, parts: int, each: int
) -> None:
    v, places, last = halves(60, width), integers(60), integers(rows)
    schedule = groups.schedule(segment_of([v, places, last], summed(v, places, last)), H200)
    assert (schedule.threads_across, schedule.parts) == (across, parts)
    assert schedule.rows_per_block == each


@pytest.mark.parametrize(("rows", "each"), [(32, 1), (2000, 3), (2200, 4), (1 << 16, 32)])
def test_rows_of_many_terms_are_dealt_to_the_blocks_that_run_at_a_time(
    rows: int, each: int
) -> None:
    """A block shares them, so one of 32 rows would take as long as 32 blocks of one."""
    v, places, last = halves(1 << 22, 64), integers(1 << 22), integers(rows)
    planned = groups.schedule(segment_of([v, places, last], summed(v, places, last)), H200)
    assert planned.rows_per_block == each


@pytest.mark.parametrize(("count", "parts"), [(1, 8), (5, 8), (6, 4), (30, 1)])
def test_the_parts_of_many_sums_fit_into_shared_memory(count: int, parts: int) -> None:
    tables, places, last = [halves(60, 4096) for _ in range(count)], integers(60), integers(500)
    made = [summed(v, places, last) for v in tables]
    schedule = groups.schedule(segment_of([*tables, places, last], *made), H200)
    assert schedule.parts == parts


@pytest.mark.parametrize(
    ("width", "alignment", "lanes"),
    [(64, 16, 8), (64, 8, 4), (36, 16, 4), (6, 16, 2), (7, 16, 1)],
)
def test_lanes_divide_a_row_and_every_address(width: int, alignment: int, lanes: int) -> None:
    v = halves(60, width)
    segment = segment_of(
        [v, order, ends],
        summed(v, order, ends),
        lies={v: Layout(v.shape, (width, 1), alignment)},
    )
    assert groups.schedule(segment, H200).axes.lanes == lanes


@pytest.mark.parametrize(
    ("width", "lanes", "across", "parts"),
    [
        (577, 8, 25, 10),  # up to 7 elements of another row before them: 73 vectors
        (66, 8, 9, 28),  # no more than 6, as two divide a row and a vector
        (1002, 8, 32, 8),
        (9, 8, 2, 32),
        (7, 1, 7, 32),  # a vector has more than one row
        (1004, 4, 32, 8),  # vectors of 8 bytes
    ],
)
def test_odd_rows_have_the_vectors_that_are_aligned_in_the_result(
    width: int, lanes: int, across: int, parts: int
) -> None:
    v = halves(60, width)
    planned = groups.schedule(segment_of([v, order, ends], summed(v, order, ends)), H200)
    assert planned.axes.is_shifted is (lanes == 8)
    assert (planned.axes.lanes, planned.threads_across, planned.parts) == (lanes, across, parts)


@pytest.mark.parametrize(
    ("sizes", "shifted"), [((9, 577), True), ((3, 3, 577), True), ((9 * 577,), False)]
)
def test_odd_rows_may_be_stored_in_another_shape(sizes: tuple[int, ...], shifted: bool) -> None:
    v = halves(60, 577)
    made = chain(reshape(summed(v, order, ends), *sizes), "neg")
    planned = groups.schedule(segment_of([v, order, ends], made), H200)
    assert planned.axes.is_shifted is shifted


def test_rows_are_not_shifted_where_something_does_not_lie_along_them() -> None:
    v, apart, place, target = halves(60, 577), halves(60, 11, 7), integers(577), halves(9, 577)
    wide, short = halves(60, 900), halves(60, 500)
    found = {
        wide: call("index_select", wide, place, dim=1),
        apart: permute(apart, 0, 2, 1),
        short: pad(short, [0, 77, 0, 0]),
    }
    segments = [
        segment_of([x, place, order, ends], summed(made, order, ends)) for x, made in found.items()
    ]
    written = [(summed(v, order, ends), target)]
    for lies in (Layout(target.shape, (600, 1), 16), Layout(target.shape, (577, 1), 2)):
        given = [v, target, order, ends]
        segments.append(segment_of(given, writes=written, lies={target: lies}))
    assert not any(groups.schedule(segment, H200).axes.is_shifted for segment in segments)


def test_a_large_result_bypasses_the_cache() -> None:
    v, places = halves(60, 4096), integers(60)
    for rows, streams in ((100, False), (128256, True)):
        last = integers(rows)
        segment = segment_of([v, places, last], summed(v, places, last))
        assert groups.schedule(segment, H200).streams is streams


def test_it_prints_what_a_thread_owns() -> None:
    made = chain(reshape(summed(x, order, ends), 9, 4, 6), "neg")
    text = str(groups.schedule(segment_of(given, made), H200))
    assert "groups over row{9}, term{60}, vector{6}, lane{4}, which end in T2" in text
    assert "reduce T3[row, 4*vector + lane]" in text


def test_a_middle_axis_is_one_of_the_rows() -> None:
    v, places, last = floats(5, 60, 8), integers(60), integers(9)
    schedule = groups.schedule(segment_of([v, places, last], summed(v, places, last, 1)), H200)
    assert schedule.axes.row.size == 45
    assert schedule.axes.vector.size * schedule.axes.lanes == 8


def pieces_and_ends(width: int, of_others: bool = False) -> Segment:
    """Sums of pieces of an order in stages, and the ends of its groups, or of another one's."""
    x, index, count = halves(2**17, width), integers(2**17), ints([90000])
    order, keys = in_stages(index, count, stages_of(90000))
    others = in_stages(chain(index, "neg"), count, stages_of(90000))[1]
    pieces = call("group_pieces", x, order, keys, dim=0, skip=-1, size=64)
    ends = call("group_ends", others if of_others else keys, count=count)
    plain = segment_of([x, index], ends, pieces)
    stored = {tv: plain.layouts[index] for tv in (order, keys, others)}
    return Segment(plain.stores, plain.leaves | {*stored}, {**plain.layouts, **stored})


def test_ends_are_found_beside_the_pieces_of_their_keys() -> None:
    planned = str(groups.schedule(pieces_and_ends(200), H200))
    assert planned.endswith("beside ends of 90000 groups in T0 of 131072, 1000 groups a block")


def test_ends_of_other_keys_are_found_elsewhere() -> None:
    reason = groups.reject(pieces_and_ends(200, of_others=True), H200)
    assert reason == "sums of groups beside an order of another kind than theirs"
