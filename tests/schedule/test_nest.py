"""Where the axes of a store are split, unrolled and cut, until index maps are plain sums."""

from __future__ import annotations

import random
from collections import Counter
from itertools import product

import pytest

from tests.programs import cat, chain, flip, pad, permute, piece, reshape
from tests.random_fusions import random_fusion
from tests.schedule.segments import floats, points, segment_of
from thunder_fuser.analysis.access import demand
from thunder_fuser.analysis.digits import evaluate
from thunder_fuser.analysis.reductions import is_long
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.bind import bind
from thunder_fuser.schedule.nest import MAX_BOXES, MAX_INSTANCES, Nest, offsets, refine
from thunder_fuser.schedule.text import named, print_axes, print_element
from thunder_fuser.segment.segment import Segment


def nests_of(*inputs: TensorView, made: TensorView) -> list[str]:
    segment = segment_of(inputs, made)
    return [printed(nest) for nest in refine(segment, segment.stores[0])]


def printed(nest: Nest) -> str:
    """Parallel axes, unrolled axes, and the index in terms of both."""
    parallel, unrolled = named("i", nest.parallel), named("u", nest.unrolled)
    axes = print_axes(nest.parallel, parallel)
    copies = f" x {print_axes(nest.unrolled, unrolled)}" if unrolled else ""
    return f"{axes}{copies}: {print_element('T', nest.index, {**parallel, **unrolled})}"


def test_an_elementwise_store_keeps_its_axes_and_drops_those_of_extent_one() -> None:
    x = floats(4, 1, 6)
    assert nests_of(x, made=chain(x, "neg")) == ["i0{4}, i1{6}: T[i0, 0, i1]"]


def test_a_scalar_is_one_point_and_an_empty_tensor_none() -> None:
    scalar, empty = floats(), floats(3, 0)
    assert nests_of(scalar, made=chain(scalar, "neg")) == ["one point: T[]"]
    assert nests_of(empty, made=chain(empty, "neg")) == []


def test_an_axis_is_split_where_a_load_takes_it_apart() -> None:
    x = floats(4, 6)
    assert nests_of(x, made=chain(reshape(permute(x, 1, 0), 24), "neg")) == [
        "i0{6}, i1{4}: T[4*i0 + i1]"
    ]


def test_digits_of_one_axis_split_it_at_every_point() -> None:
    x = floats(2, 3, 4)
    assert nests_of(x, made=chain(reshape(permute(x, 2, 1, 0), 24), "neg")) == [
        "i0{4}, i1{3}, i2{2}: T[6*i0 + 2*i1 + i2]"
    ]


def test_equal_pieces_belong_to_one_thread() -> None:
    x = floats(3, 16)
    turned = cat(chain(piece(x, 1, 8, 16), "neg"), piece(x, 1, 0, 8))
    assert nests_of(x, made=turned) == ["i0{3}, i1{8} x u0{2}: T[i0, 8*u0 + i1]"]


def test_unequal_pieces_are_nests_of_their_own() -> None:
    a, b = floats(3, 5), floats(3, 8)
    assert nests_of(a, b, made=cat(a, b)) == [
        "i0{3}, i1{5}: T[i0, i1]",
        "i0{3}, i1{8}: T[i0, 5 + i1]",
    ]


def partly_turned(*shape: int, turned: int) -> tuple[list[TensorView], TensorView]:
    """A rotary embedding of the first elements of each row, as models write it."""
    x, sine, cosine = floats(*shape), floats(turned), floats(turned)
    part, rest = piece(x, 1, 0, turned), piece(x, 1, turned, shape[1])
    halves = piece(part, 1, turned // 2, turned), piece(part, 1, 0, turned // 2)
    other = call("mul", cat(chain(halves[0], "neg"), halves[1]), sine)
    return [x, sine, cosine], cat(call("add", call("mul", part, cosine), other), rest)


def test_a_short_row_stays_whole_with_the_turned_half_beside_its_other_half() -> None:
    inputs, made = partly_turned(3, 32, turned=8)
    assert nests_of(*inputs, made=made) == ["i0{3}, i1{4}, i2{4} x u0{2}: T[i0, 8*i1 + 4*u0 + i2]"]


def test_pieces_in_one_thread_keep_their_rows_whole() -> None:
    """As the gradient of query, key and value is one tensor: of the three two are turned."""
    inputs, turned = partly_turned(3, 32, turned=8)
    other = floats(3, 32)
    assert nests_of(*inputs, other, made=cat(turned, other, turned)) == [
        "i0{3}, i1{4}, i2{4} x u0{3}, u1{2}: T[i0, 32*u0 + 8*i1 + 4*u1 + i2]"
    ]


def test_a_row_whose_pieces_read_different_tensors_is_cut() -> None:
    """No thread loads for another's piece."""
    a, b = floats(3, 8), floats(3, 24)
    assert nests_of(a, b, made=cat(a, b)) == [
        "i0{3}, i1{8}: T[i0, i1]",
        "i0{3}, i1{24}: T[i0, 8 + i1]",
    ]


@pytest.mark.parametrize(("columns", "turned"), [(1024, 384), (32, 6), (128, 40)])
def test_long_rows_and_pieces_that_share_a_vector_are_cut(columns: int, turned: int) -> None:
    inputs, made = partly_turned(3, columns, turned=turned)
    assert len(nests_of(*inputs, made=made)) > 1


def beside_the_one_before(rows: int, columns: int) -> tuple[TensorView, TensorView]:
    """Each element and the one before it, the first one twice: as an image is upsampled."""
    x = floats(rows, columns)
    return x, call("add", x, cat(piece(x, 1, 0, 1), piece(x, 1, 0, columns - 1)))


def test_a_short_row_of_which_edges_repeat_an_element_stays_whole() -> None:
    x, made = beside_the_one_before(3, 14)
    assert nests_of(x, made=made) == ["i0{3}, i1{14}: T[i0, i1]"]


def test_long_rows_stay_whole_where_edges_alone_have_no_neighbour() -> None:
    x, made = beside_the_one_before(3, 130)
    assert nests_of(x, made=made) == ["i0{3}, i1{130}: T[i0, i1]"]


def test_long_rows_leave_wide_edges_to_others() -> None:
    x = floats(3, 130)
    made = call("add", x, cat(piece(x, 1, 0, 9), piece(x, 1, 0, 121)))
    assert nests_of(x, made=made) == ["i0{3}, i1{9}: T[i0, i1]", "i0{3}, i1{121}: T[i0, 9 + i1]"]


def test_rows_below_each_other_stay_one_nest() -> None:
    """Not where an element reads one of them."""
    x = floats(9, 130)
    above = pad(piece(x, 0, 0, 8), [0, 0, 1, 0])
    assert nests_of(x, made=call("add", x, above)) == ["i0{9}, i1{130}: T[i0, i1]"]
    assert len(nests_of(x, made=above)) == 2


def test_three_pieces_are_cut_where_two_of_them_are_equal() -> None:
    """Query heads, and one of keys and one of values."""
    q, k, v = floats(3, 256), floats(3, 64), floats(3, 64)
    assert nests_of(q, k, v, made=cat(q, k, v)) == [
        "i0{3}, i1{256}: T[i0, i1]",
        "i0{3}, i1{64} x u0{2}: T[i0, 256 + 64*u0 + i1]",
    ]


def test_a_padded_axis_is_cut_into_both_margins_and_the_middle() -> None:
    x = floats(3, 8)
    assert nests_of(x, made=pad(x, [1, 2])) == [
        "i0{3}: T[i0, 0]",
        "i0{3}, i1{8}: T[i0, 1 + i1]",
        "i0{3}, i1{2}: T[i0, 9 + i1]",
    ]


def test_a_window_in_the_middle_of_equal_pieces_is_one_of_them() -> None:
    x = floats(3, 4)
    assert nests_of(x, made=pad(x, [4, 4])) == ["i0{3}, i1{4} x u0{3}: T[i0, 4*u0 + i1]"]


def test_a_flipped_window_is_cut_at_its_own_break() -> None:
    """Three elements of padding come first; nothing is left to guard."""
    x = floats(8)
    assert nests_of(x, made=flip(pad(x, [0, 3]), 0)) == [
        "i0{3}: T[i0]",
        "i0{8}: T[3 + i0]",
    ]


def test_what_no_thread_can_own_and_no_box_is_left_for_stays_guarded() -> None:
    parts = [floats(n) for n in range(2, 2 + 2 * MAX_BOXES)]
    segment = segment_of(parts, cat(*parts))
    nests = refine(segment, segment.stores[0])
    assert len(nests) == MAX_BOXES
    assert any(list(demand([(n.store.value, n.index)], segment.leaves).windows()) for n in nests)


def segments_of(seed: int) -> list[Segment]:
    """Every output of a random fusion as a segment of its own, without a cut before it, but for
    those that need one."""
    program, arguments = random_fusion(seed)
    bound = bind(program, arguments)
    inputs = [v for v in bound.fusion.inputs if isinstance(v, TensorView)]
    wanted = [tv for tv in bound.fusion.outputs if tv.dtype is not DataType.Bool]
    found = [tv for tv in wanted if not any(map(is_long, topological([tv])))]
    return [segment_of(inputs, call("neg", tv), lies=bound.layouts) for tv in found]


@pytest.mark.parametrize("seed", random.Random(7).sample(range(1 << 20), 40))
def test_nests_run_over_every_element_once(seed: int) -> None:
    for segment in segments_of(seed):
        (store,) = segment.stores
        shape, found = store.value.shape, Counter[tuple[int, ...]]()
        nests = refine(segment, store)
        for nest in nests:
            assert nest.instances <= MAX_INSTANCES
            for point in points(nest.axes):
                found[tuple(evaluate(f, point) for f in nest.index)] += 1
        assert set(found.values()) <= {1}
        assert set(found) == set(product(*map(range, shape)))


def test_after_refinement_every_offset_is_a_sum_of_whole_axes() -> None:
    x, y = floats(4, 6, 10), floats(240)
    made = call("add", reshape(permute(x, 2, 0, 1), 240), y)
    segment = segment_of([x, y], made)
    (nest,) = refine(segment, segment.stores[0])
    needs = demand([(made, nest.index)], segment.leaves)
    assert all(d.is_whole for f in offsets(segment, nest, needs) for _, d in f.terms)
    assert printed(nest) == "i0{10}, i1{24}: T[24*i0 + i1]"
