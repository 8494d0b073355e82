"""How many lanes a class gets, what is left over, and which stores bypass the cache."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.programs import cat, chain, expand, flip, pad, piece, total, unsqueeze
from tests.schedule.segments import floats, halves, points, segment_of
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import NEVER, MapParameters
from thunder_fuser.schedule.vectorize import MIN_VECTORS
from thunder_fuser.segment.segment import Segment


def widths(segment: Segment, parameters: MapParameters | None = None) -> list[tuple[int, int]]:
    """Threads and lanes of every class."""
    made = map.schedule(segment, parameters or MapParameters())
    return [(c.threads, c.lanes) for c in made.classes]


def copied(x: TensorView, layout: Layout | None = None) -> Segment:
    return segment_of([x], chain(x, "neg"), lies={x: layout} if layout else None)


@pytest.mark.parametrize(
    ("dtype", "lanes"),
    [
        (DataType.Int8, 8),  # 16 would fit; the parameters allow 8
        (DataType.BFloat16, 8),
        (DataType.Float, 4),
        (DataType.Double, 2),
        (DataType.ComplexDouble, 1),
    ],
    ids=str,
)
def test_a_vector_fills_the_widest_access(dtype: DataType, lanes: int) -> None:
    assert widths(copied(tensor(dtype, 4096))) == [(4096 // lanes, lanes)]


@pytest.mark.parametrize(("plane", "lanes"), [((1 << 22) - 1, 8), (1 << 22, 2)])
def test_few_elements_have_vectors_of_what_registers_hold(plane: int, lanes: int) -> None:
    """14 loads of 4 bytes for each lane, of which 48 registers hold three, beside a large class."""
    x, y = floats(14, 4096), halves(plane)
    made = call("cast", total(x, 0), dtype=DataType.BFloat16)
    found = widths(segment_of([x, y], made, chain(y, "neg")))
    assert found[0] == (4096 // lanes, lanes)


@pytest.mark.parametrize(("times", "lanes"), [(2, 4), (4, 2), (8, 1)])
def test_what_is_stored_again_beside_itself_fills_one_access(times: int, lanes: int) -> None:
    """An upsampling: with more, threads would leave parts of each line to their next store."""
    x = halves(64, 4096)
    wide = expand(unsqueeze(x, 2), 64, 4096, times)
    assert widths(segment_of([x], chain(wide, "neg"))) == [(64 * 4096 // lanes, lanes)]
    rows = expand(unsqueeze(x, 1), 64, times, 4096)
    assert [found for _, found in widths(segment_of([x], chain(rows, "neg")))] == [8]


def test_what_a_plane_of_seven_by_seven_has_one_of_is_stored_in_whole_vectors() -> None:
    """Not its 49 elements by one thread."""
    x = halves(64, 48)
    wide = expand(unsqueeze(unsqueeze(x, 2), 3), 64, 48, 7, 7)
    assert widths(segment_of([x], chain(wide, "neg"))) == [(64 * 48 * 49 // 8, 8)]


def test_the_narrowest_type_that_is_read_sets_the_lanes_unless_a_wider_one_is_stored() -> None:
    x, y = floats(4096), halves(4096)
    total = call("add", x, y)
    assert widths(segment_of([x, y], call("cast", total, dtype=DataType.BFloat16))) == [(512, 8)]
    assert widths(segment_of([x, y], total)) == [(1024, 4)]


@pytest.mark.parametrize(
    ("extent", "expected"),
    [
        (1, [(1, 1)]),
        (2, [(1, 2)]),
        (3, [(3, 1)]),
        (7, [(7, 1)]),  # three vectors of two would not be worth a remainder
        (12, [(3, 4)]),
        (13, [(3, 4), (1, 1)]),
        (17, [(MIN_VECTORS, 4), (1, 1)]),
        (4093, [(1023, 4), (1, 1)]),
        (4099, [(1024, 4), (3, 1)]),
    ],
)
def test_a_prime_extent_is_whole_vectors_and_a_rest(
    extent: int, expected: list[tuple[int, int]]
) -> None:
    assert widths(copied(floats(extent))) == expected


def test_an_empty_tensor_has_no_class() -> None:
    assert widths(copied(floats(0, 8))) == []


@pytest.mark.parametrize(("alignment", "lanes"), [(16, 8), (8, 8), (4, 8), (2, 4)])
def test_a_misaligned_tensor_gets_vectors_of_at_most_four_accesses(
    alignment: int, lanes: int
) -> None:
    x = halves(4096)
    assert widths(copied(x, Layout((4096,), (1,), alignment))) == [(4096 // lanes, lanes)]


def test_a_small_misaligned_operand_does_not_narrow_a_large_one() -> None:
    x, bias = halves(64, 4096), halves(4096)
    segment = segment_of([x, bias], call("add", x, bias), lies={bias: Layout((4096,), (1,), 2)})
    assert widths(segment) == [(64 * 512, 8)]


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        (100, [(64 * 25, 4)]),  # not 12 vectors of two accesses, and 4 elements
        (196, [(64 * 24, 8), (64 * 4, 1)]),  # few, beside 24
    ],
)
def test_vectors_of_two_accesses_do_not_leave_much_to_single_elements(
    columns: int, expected: list[tuple[int, int]]
) -> None:
    x, y, bias = halves(4, 16, columns), halves(4, 1, columns), halves(columns)
    added = call("add", call("mul", x, expand(y, 4, 16, columns)), bias)
    assert widths(segment_of([x, y, bias], added), MapParameters(busy=NEVER)) == expected


def test_rows_of_odd_length_align_no_row_but_the_first() -> None:
    x = halves(64, 65)
    assert widths(segment_of([x], chain(piece(x, 1, 0, 64), "neg"))) == [(64 * 16, 4)]


@pytest.mark.parametrize(
    ("row", "columns", "stored"),
    [
        (129, 128, "T1[i0, 32*lane + i1]"),
        (129, 48, "T1[16*lane + i0, i1]"),  # 12 of 2 bytes fill no two sectors: rows do
        (131, 33, "T1[16*lane + i0, i1]"),  # with nothing left of them
        (130, 128, "T1[i0, 8*i1 + lane]"),  # two at a time
    ],
)
def test_what_is_stored_one_by_one_lies_side_by_side_in_threads(
    row: int, columns: int, stored: str
) -> None:
    """Whatever is loaded as vectors."""
    x = halves(64, columns)
    made = chain(x, "neg")
    segment = segment_of([x], made, lies={made: Layout((64, columns), (row, 1))})
    assert str(map.schedule(segment, MapParameters())).splitlines()[2].strip() == stored


@pytest.mark.parametrize(
    ("summed", "columns", "stored"),
    [
        (2, 41, "T1[8*lane + i0, i1]"),  # as of the gradient of an upsampling
        (4, 41, "T1[i0, 8*i1 + lane]"),  # loads are nearly all that is moved
        (2, 40, "T1[i0, 8*i1 + lane]"),
    ],
)
def test_so_does_what_a_thread_sums(summed: int, columns: int, stored: str) -> None:
    x = halves(64, summed, columns, 2)
    found = str(map.schedule(segment_of([x], total(x, 1, 3)), MapParameters()))
    assert found.splitlines()[2].strip() == stored


@pytest.mark.parametrize(("rows", "expected"), [(67, [(16 * 33, 4), (3 * 33, 1)]), (3, [(33, 1)])])
def test_rows_that_are_left_of_lanes_have_single_elements(
    rows: int, expected: list[tuple[int, int]]
) -> None:
    x = halves(rows, 33)
    made = chain(x, "neg")
    assert widths(segment_of([x], made, lies={made: Layout((rows, 33), (131, 1))})) == expected


@pytest.mark.parametrize(
    ("rows", "busy", "threads", "loads"),
    [(14, 1, 2 * 12, 7 + 2), (14, 40 * 12, 14 * 12, 3), (13, 1, 13 * 12, 3)],
)
def test_few_rows_are_neighbours_in_one_thread(
    rows: int, busy: int, threads: int, loads: int
) -> None:
    """What a row reads of the next ones is loaded once."""
    x = halves(rows + 2, 12)
    parts = [piece(x, 0, k, k + rows) for k in range(3)]
    made = call("add", call("add", parts[0], parts[1]), parts[2])
    segment = segment_of([x], made, lies={made: Layout((rows, 12), (15, 1))})
    (found,) = map.schedule(segment, MapParameters(busy=busy)).classes
    assert (found.threads, len(found.group.loads)) == (threads, loads)


@pytest.mark.parametrize(
    ("rows", "threads"), [(68, [17 * 35]), (131, [32 * 35, 3 * 35]), (3, [3 * 35])]
)
def test_rows_too_short_for_lanes_are_several_of_one_thread(rows: int, threads: list[int]) -> None:
    """Gradients of images of 5 x 7 places that were doubled."""
    x = halves(rows, 5, 2, 7, 2)
    assert widths(segment_of([x], total(x, 2, 4))) == [(n, 1) for n in threads]


def test_rows_of_one_thread_lie_whole_images_apart() -> None:
    x = halves(68, 5, 2, 7, 2)
    found = str(map.schedule(segment_of([x], total(x, 2, 4)), MapParameters()))
    stored = "T1[17*u0 + (i0/5), (i0%5), i1], u0{4} in one thread"
    assert found.splitlines()[2].strip() == stored


def test_few_short_rows_have_a_thread_for_each_element() -> None:
    x = halves(64, 5, 2, 7, 2)
    found = widths(segment_of([x], total(x, 2, 4)), MapParameters(busy=64 * 35))
    assert found == [(64 * 35, 1)]


@pytest.mark.parametrize(("step", "lanes"), [(1, 4), (2, 4), (4, 4), (5, 2), (8, 2), (16, 1)])
def test_lanes_with_a_short_stride_share_one_run_of_registers(step: int, lanes: int) -> None:
    x = floats(64, 16 * step)
    segment = segment_of([x], chain(piece(x, 1, 0, 16 * step, step), "neg"))
    assert widths(segment) == [(1024 // lanes, lanes)]


def test_a_thread_with_several_stores_has_half_the_lanes() -> None:
    x = halves(40, 128)
    one = segment_of([x], chain(x, "neg"))
    two = segment_of([x], chain(x, "neg"), chain(x, "exp"))
    assert (widths(one), widths(two)) == ([(640, 8)], [(1280, 4)])
    assert widths(two, MapParameters(lanes=1)) == [(5120, 1)]


def test_the_parameters_bound_the_lanes() -> None:
    assert widths(copied(halves(4096)), MapParameters(lanes=2)) == [(2048, 2)]


@pytest.mark.parametrize(("streamed", "streams"), [(4096 * 4, True), (4096 * 4 + 1, False)])
def test_stores_that_no_cache_holds_bypass_it(streamed: int, streams: bool) -> None:
    schedule = map.schedule(copied(floats(4096)), MapParameters(streamed=streamed))
    assert [c.streams for c in schedule.classes] == [streams]


def test_pieces_of_one_store_do_not_bypass_the_cache() -> None:
    a, b = floats(64, 12), floats(64, 8)
    schedule = map.schedule(segment_of([a, b], cat(a, b)), MapParameters(streamed=1))
    assert [c.streams for c in schedule.classes] == [None, None]


def test_vectors_and_rest_are_pieces_too() -> None:
    """They share a line."""
    schedule = map.schedule(copied(floats(4099)), MapParameters(streamed=1))
    assert [(c.lanes, c.streams) for c in schedule.classes] == [(4, None), (1, None)]


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    rows=st.integers(0, 5),
    columns=st.integers(0, 70),
    dtype=st.sampled_from([DataType.Int8, DataType.BFloat16, DataType.Float, DataType.Double]),
    alignment=st.sampled_from([16, 8]),
    shape=st.sampled_from(["neg", "pad", "flip", "pair", "turn"]),
)
def test_classes_write_every_element_once(
    rows: int, columns: int, dtype: DataType, alignment: int, shape: str
) -> None:
    x = tensor(dtype, rows, columns)
    made = {
        "neg": lambda: [chain(x, "neg")],
        "pad": lambda: [pad(x, [1, 2, 0, 1])],
        "flip": lambda: [flip(pad(x, [0, 3]), 1)],
        "pair": lambda: [chain(x, "neg"), chain(x, "abs")],
        "turn": lambda: [cat(chain(x, "neg"), x)],
    }[shape]()
    lies = {x: Layout(x.shape, (columns, 1), alignment)}
    segment = segment_of([x], *made, lies=lies)
    written: dict[TensorView, list[tuple[int, ...]]] = {tv: [] for tv in made}
    for found in map.schedule(segment, MapParameters()).classes:
        assert found.lanes & (found.lanes - 1) == 0
        for nest in found.group.nests:
            for point in points(nest.axes):
                written[nest.store.value].append(tuple(evaluate(f, point) for f in nest.index))
    for tv, indices in written.items():
        every = [(r, c) for r in range(tv.shape[0]) for c in range(tv.shape[1])]
        assert sorted(indices) == every
