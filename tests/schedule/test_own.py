"""Which values of an axis one thread owns, so as to load once what they share."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import H200, cat, chain, expand, pad, permute, piece, reshape, unsqueeze
from tests.schedule.segments import floats, halves, integers, segment_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.templates import draft, variants
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import KEPT, MapParameters, map_parameters
from thunder_fuser.segment.segment import Segment

P = MapParameters(reused=8)
LENGTH, SIZE = 1024, 64


def heads(count: int, length: int = LENGTH, size: int = SIZE, tables: int = 2) -> Segment:
    """y[h, t, d] = x[t, h, d] * table[t, d] * ...; of two tables is half of what moves."""
    x, *others = halves(length, count, size), *(halves(length, size) for _ in range(tables))
    y = permute(x, 1, 0, 2)
    for table in others:
        y = call("mul", y, table)
    return segment_of([x, *others], y)


def owned(segment: Segment, parameters: MapParameters = P) -> list[int]:
    """Copies of the first store of each class in one thread."""
    return [c.group.nests[0].instances for c in map.schedule(segment, parameters).classes]


def test_a_thread_turns_several_heads_by_one_load_of_each_table() -> None:
    assert str(map.schedule(heads(28), P)) == dedent("""\
        map, blocks of 128
          class over i0{4}, i1{1024}, i2{16} and lane{4}
            T5[7*i0 + u0, i1, 4*i2 + lane], u0{7} in one thread""")


@pytest.mark.parametrize(
    ("count", "factor"), [(32, 8), (28, 7), (12, 6), (7, 7), (3, 3), (22, 2), (13, 1), (1, 1)]
)
def test_as_many_heads_as_divide_them_up_to_the_limit(count: int, factor: int) -> None:
    assert owned(heads(count)) == [factor]


@pytest.mark.parametrize(("reused", "factor"), [(1, 1), (2, 2), (4, 4), (6, 4), (7, 7)])
def test_the_limit_is_a_parameter(reused: int, factor: int) -> None:
    assert owned(heads(28), MapParameters(reused=reused)) == [factor]


@pytest.mark.parametrize(("rows", "dim", "factor"), [(512, 0, 2), (511, 0, 1), (512, 1, 1)])
def test_a_thread_waits_for_the_indices_of_two_rows_of_a_table(
    rows: int, dim: int, factor: int
) -> None:
    """If they are even. One index for each element is none of a row."""
    table, chosen = halves(1000, 64), integers(rows if dim == 0 else 64)
    segment = segment_of([table, chosen], call("index_select", table, chosen, dim=dim))
    assert owned(segment) == [factor]
    assert map.schedule(segment, P).classes[0].lanes == 8  # as many as of one row


@pytest.mark.parametrize(("tables", "again", "factor"), [(1, 50, 1), (1, 33, 8), (2, 50, 8)])
def test_it_must_be_a_sizable_part_of_what_moves(tables: int, again: int, factor: int) -> None:
    assert owned(heads(8, tables=tables), MapParameters(reused=8, again=again)) == [factor]


def test_a_fifth_of_what_moves_is_enough_where_more_than_the_cache_is_moved_between() -> None:
    between = 3 * 2 * LENGTH * SIZE  # x, y and the table of one head
    for cache, factor in ((2 * between, 1), (2 * between - 1, 8)):
        assert owned(heads(8, tables=1), MapParameters(reused=8, cache=cache)) == [factor]


def test_tables_of_long_sequences_are_read_from_memory_for_each_head_and_so_shared() -> None:
    first, *_ = map_parameters(H200)
    assert owned(heads(8, 32768, 128, tables=1), first) == [1]
    assert owned(heads(8, 65536, 128, tables=1), first) == [8]


def test_a_table_that_each_head_reads_is_in_the_cache_for_the_next_image_too() -> None:
    x, table = halves(2, LENGTH, 8, SIZE), halves(LENGTH, SIZE)
    segment = segment_of([x, table], call("mul", permute(x, 0, 2, 1, 3), table))
    between = 3 * 2 * LENGTH * SIZE  # of one head, not of the eight of an image
    assert owned(segment, MapParameters(reused=8, cache=2 * between)) == [1]
    assert owned(segment, MapParameters(reused=8, cache=2 * between - 1)) == [8]


def test_a_table_that_caches_keep_from_head_to_head_is_read_again() -> None:
    length = KEPT // (2 * SIZE)
    assert owned(heads(8, length)) == [1]
    assert owned(heads(8, length + 1)) == [8]
    assert owned(heads(8, length), MapParameters(reused=8, kept=KEPT - 1)) == [8]


def test_between_rows_caches_keep_a_row_of_bias_however_many_rows_there_are() -> None:
    def biased(rows: int, columns: int) -> Segment:
        x, bias, scale = halves(rows, columns), halves(columns), halves(columns)
        return segment_of([x, bias, scale], call("mul", call("add", x, bias), scale))

    assert owned(biased(1 << 16, KEPT // 2)) == [1]
    assert owned(biased(64, KEPT // 2 + 8)) == [8]


def test_enough_elements_are_left_to_run_in_parallel_in_all_classes_together() -> None:
    elements = 28 * LENGTH * SIZE
    assert owned(heads(28), MapParameters(reused=8, busy=elements // 4)) == [4]
    assert owned(heads(28), MapParameters(reused=8, busy=elements // 4 + 1)) == [2]
    beside = floats(elements)
    pair = segment_of(
        [beside, *(one := heads(28)).inputs], chain(beside, "neg"), one.stores[0].value
    )
    assert sorted(owned(pair, MapParameters(reused=8, busy=elements // 4))) == [1, 7]


def test_what_a_thread_loads_fits_its_registers() -> None:
    """Two tables and eight heads: 10 vectors of 8 bytes, of 16 they would be 160 bytes; f32 too."""

    def of_floats(tables: int) -> Segment:
        x, *others = floats(LENGTH, 8, SIZE), *(floats(LENGTH, SIZE) for _ in range(tables))
        y = permute(x, 1, 0, 2)
        for table in others:
            y = call("mul", y, table)
        return segment_of([x, *others], y)

    assert owned(heads(8), MapParameters(reused=8, wide=True)) == [8]
    assert owned(of_floats(4)) == [8]
    assert owned(of_floats(5)) == [4]
    assert owned(of_floats(11)) == [1]


def test_copies_of_one_value_are_limited_by_what_threads_own_and_not_by_what_they_reuse() -> None:
    x = halves(LENGTH, SIZE)
    segment = segment_of([x], chain(expand(unsqueeze(x, 0), 6, LENGTH, SIZE), "neg"))
    assert owned(segment, MapParameters(reused=2)) == [6]
    assert owned(segment, MapParameters(reused=2, owned=3)) == [3]
    assert owned(segment, MapParameters(reused=1)) == [1]
    (found,) = map.schedule(segment, MapParameters(reused=2)).classes
    assert found.lanes == 8, "one vector is computed, however often it is stored"


def test_neighbours_in_memory_are_preferred_to_a_few_more_heads_that_lie_apart() -> None:
    """Eight groups of four heads beside others that are not read, as in LitGPT's layout."""
    x, cos, sin = halves(LENGTH, 8, 6, SIZE), halves(LENGTH, SIZE), halves(LENGTH, SIZE)
    q = reshape(permute(piece(x, 2, 0, 4), 1, 2, 0, 3), 32, LENGTH, SIZE)
    segment = segment_of([x, cos, sin], call("mul", call("mul", q, cos), sin))
    assert str(map.schedule(segment, P)).splitlines()[1:] == [
        "  class over i0{8}, i1{1024}, i2{16} and lane{4}",
        "    T7[4*i0 + u0, i1, 4*i2 + lane], u0{4} in one thread",
    ]


def test_two_projections_share_their_tables_with_each_other_and_between_heads() -> None:
    cos, sin = halves(LENGTH, SIZE), halves(LENGTH, SIZE)
    q, k = (halves(LENGTH, 12, SIZE) for _ in range(2))
    made = [call("mul", call("mul", permute(x, 1, 0, 2), cos), sin) for x in (q, k)]
    segment = segment_of([q, k, cos, sin], *made)
    assert owned(segment) == [1], "a third of the bytes"
    (found,) = map.schedule(segment, MapParameters(reused=8, again=33)).classes
    assert [n.instances for n in found.group.nests] == [6, 6]


def test_halves_of_a_rotation_count_what_each_of_them_reads() -> None:
    """Four loads of tables and two of x for two stores: half of all bytes, not more."""
    x, cos, sin = halves(LENGTH, 8, SIZE), halves(LENGTH, SIZE), halves(LENGTH, SIZE)
    q, half = permute(x, 1, 0, 2), SIZE // 2
    turned = cat(chain(piece(q, 2, half, SIZE), "neg"), piece(q, 2, 0, half))
    made = call("add", call("mul", q, cos), call("mul", turned, sin))
    segment = segment_of([x, cos, sin], made)
    (found,) = map.schedule(segment, MapParameters()).classes
    assert len(found.group.loads) == 6
    assert owned(segment) == [2 * 8]
    assert owned(segment, MapParameters(reused=8, again=51)) == [2]


def test_squares_keep_their_threads() -> None:
    x, table = halves(8, LENGTH, SIZE), halves(SIZE, LENGTH)
    segment = segment_of([x, table], call("mul", permute(x, 0, 2, 1), table))
    (found,) = map.schedule(segment, MapParameters(reused=8, again=1, kept=0)).classes
    assert found.tile is not None
    assert found.group.nests[0].instances == 1


def test_stores_of_single_elements_stay_side_by_side() -> None:
    """Heads are innermost in memory, so a thread with all of one position fills no sector alone."""
    x, y = halves(LENGTH, SIZE, 8), halves(LENGTH, SIZE)
    made = call("mul", permute(x, 2, 0, 1), y)
    lies = {made: Layout((8, LENGTH, SIZE), (1, 8 * SIZE, 8))}
    assert owned(segment_of([x, y], made, lies=lies), MapParameters(reused=8, again=1, kept=0)) == [
        1
    ]


def test_a_target_that_is_read_may_be_owned_by_heads_too() -> None:
    x, *tables = halves(8, LENGTH, SIZE), halves(LENGTH, SIZE), halves(LENGTH, SIZE)
    made = call("mul", call("mul", x, tables[0]), tables[1])
    assert owned(segment_of([x, *tables], writes=[(made, x)])) == [8]


def test_a_gpu_shares_what_is_half_of_all_bytes_and_tries_no_sharing_as_well() -> None:
    segment = heads(28, length=16384)
    preferred = draft(segment, H200, strict=False)
    assert owned(segment, map_parameters(H200)[0]) == [7]
    tried = [
        owned(segment, p) for v in variants(segment, H200, preferred) if (p := _map(v.parameters))
    ]
    assert [1] in tried
    assert [4] in tried


def test_sharing_a_row_of_bias_is_tried_and_not_preferred() -> None:
    x, bias = halves(16384, 4096), halves(4096)
    segment = segment_of([x, bias], chain(call("add", x, bias), "exp"))
    preferred = draft(segment, H200, strict=False)
    assert owned(segment, _map(preferred.parameters)) == [1]
    tried = [owned(segment, _map(v.parameters)) for v in variants(segment, H200, preferred)]
    assert tried.count([4]) == 1


def _map(parameters: object) -> MapParameters:
    assert isinstance(parameters, MapParameters)
    return parameters


def test_nothing_is_owned_where_nothing_is_read_again() -> None:
    x: TensorView = halves(8, LENGTH, SIZE)
    assert owned(segment_of([x], chain(x, "neg")), MapParameters(reused=8, again=1, kept=0)) == [1]


def test_what_an_inner_axis_reads_again_from_a_cache_is_no_reason_to_own_an_outer_one() -> None:
    """With heads inside of positions, one position's tables serve its heads from a cache."""
    for heads_inside, factor in ((True, 1), (False, 2)):
        x, *tables = halves(2, LENGTH, 13, SIZE), halves(LENGTH, 1, SIZE), halves(LENGTH, 1, SIZE)
        made = call("mul", call("mul", x, tables[0]), tables[1])
        if not heads_inside:
            made = permute(made, 0, 2, 1, 3)
        segment = segment_of([x, *tables], made)
        assert owned(segment) == [factor]
        assert owned(segment, MapParameters(reused=8, kept=0)) == [2]


def test_pieces_of_one_store_keep_pace() -> None:
    """A part of a long head is turned; its class and that of the rest take turns over the same
    lines."""
    size, turned = 512, 96
    x, *tables = halves(LENGTH, 8, size), *(halves(LENGTH, turned) for _ in range(2))
    q = permute(x, 1, 0, 2)
    part = call("mul", call("mul", piece(q, 2, 0, turned), tables[0]), tables[1])
    segment = segment_of([x, *tables], cat(part, piece(q, 2, turned, size)))
    assert owned(segment, MapParameters(reused=8, again=1, kept=0)) == [1, 1]


def test_what_many_rows_have_of_a_cache_is_loaded_once_for_several() -> None:
    """The gradient of a mean over tokens: nothing read depends on these."""
    x = halves(2621, 100)
    y = chain(expand(unsqueeze(x, 1), 2621, 256, 100), "neg")
    assert str(map.schedule(segment_of([x], y), map_parameters(H200)[0])) == dedent("""\
        map, blocks of 128
          class over i0{2621}, i1{32}, i2{25} and lane{4}, streaming
            T3[i0, 8*i1 + u0, 4*i2 + lane], u0{8} in one thread""")


def test_one_element_has_no_axis_to_own() -> None:
    x: TensorView = floats()
    assert owned(segment_of([x], chain(x, "neg")), map_parameters(H200)[0]) == [1]


@pytest.mark.parametrize(("rows", "columns", "copies"), [(28, 64, 4), (14, 64, 2), (13, 64, 1)])
def test_a_thread_has_rows_that_read_each_other(rows: int, columns: int, copies: int) -> None:
    x = halves(64, rows, columns)
    above = pad(piece(x, 1, 0, rows - 1), [0, 0, 1, 0])
    segment = segment_of([x], call("add", x, above))
    assert owned(segment) == [copies]
    assert owned(segment, MapParameters(reused=8, busy=64 * rows * columns)) == [1]


@pytest.mark.parametrize(("columns", "lanes"), [(64, 8), (66, 4)])
def test_vectors_stay_whole_beside_rows_of_neighbours(columns: int, lanes: int) -> None:
    """If accesses are wide: of rows of 132 bytes they have four."""
    x = halves(64, 28, columns)
    above = pad(piece(x, 1, 0, 27), [0, 0, 1, 0])
    found = map.schedule(segment_of([x], call("add", x, above)), P).classes
    assert (found[0].lanes, found[0].group.nests[0].instances) == (lanes, 4)
