"""Group kernels: where a row's terms lie, what each adds, and what is done once per row."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import H200, chain, ints
from tests.schedule.segments import floats, halves, integers, segment_of
from tests.schedule.test_groups import pieces_and_ends
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.group_ir import GroupKernel
from thunder_fuser.kernel.groups import lower_groups
from thunder_fuser.schedule import groups
from thunder_fuser.segment.segment import Segment


def printed(segment: Segment, strict: bool = False) -> str:
    return str(lower_groups(groups.schedule(segment, H200), strict))


def test_terms_are_accumulated_and_the_rest_is_done_once_per_row() -> None:
    x, shift, order, ends = halves(60, 64), halves(64), integers(60), integers(9)
    made = call("group_sum", chain(x, "exp"), order, ends, dim=0, skip=-1)
    result = call("add", chain(made, "neg"), shift)
    head, text = printed(segment_of([x, shift, order, ends], result)).split("\n", 1)
    assert head.endswith("1 blocks of 32 rows, 8 x 32 threads")
    assert dedent(text) == dedent("""\
          rows 9 vectors 8 lanes 8, shared beyond 16 terms, 4 terms at a time
          stretch of group row
            T3_0: i64 = T3[-1 + row] where 0 <= -1 + row < 9
            T3_1: i64 = T3[row]
          per term
            T2_0: i64 = T2[term]
            T2_1: i64 = in_range(T2_0, 60)
            v0 = load T0[64*T2_1 + 8*vector], 8 x bf16, 16 bytes at a time
            T0_0: f32 = v0[k][1*lane + 0]
            T1_0: f32 = exp(T0_0)
            T4_part[lane] group_sum= T1_0
          per row
            v0 = load T6[8*vector], 8 x bf16, 16 bytes at a time
            T6_0: f32 = v0[1*lane + 0]
            T5_0: f32 = neg(T4_row[lane])
            T7_0: f32 = add(T5_0, T6_0)
            w0[1*lane + 0] = T7_0
            store w0 -> T7[64*row + 8*vector], 8 x bf16, 16 bytes at a time""")


def test_the_places_of_an_order_need_no_check() -> None:
    x, index, ends = floats(60, 64), integers(60), integers(9)
    order = call("group_order", index, count=ints([9]))
    made = call("group_sum", x, order, ends, dim=0, skip=-1)
    segment = segment_of([x, index, ends], made)
    stored = Segment(
        segment.stores,
        segment.leaves | {order},
        {**segment.layouts, order: segment.layouts[index]},
    )
    assert "in_range" not in printed(stored)


@pytest.mark.parametrize(("strict", "rounds"), [(True, 1), (False, 0)])
def test_strict_rounds_each_term_as_the_trace_does(strict: bool, rounds: int) -> None:
    x, order, ends = halves(60, 64), integers(60), integers(9)
    made = call("group_sum", chain(x, "exp"), order, ends, dim=0, skip=-1)
    text = printed(segment_of([x, order, ends], made), strict)
    assert text.split("  per row")[0].count("round(") == rounds


def test_only_the_ends_of_ordered_keys_are_trusted() -> None:
    x, order, index = floats(60, 64), integers(60), integers(60)
    for ends, is_trusted in (
        (integers(9), False),
        (call("group_ends", index, count=ints([9])), True),
    ):
        made = call("group_sum", x, order, ends, dim=0, skip=-1)
        segment = segment_of([x, order, index, ends], made)
        kernel = lower_groups(groups.schedule(segment, H200), strict=False)
        assert kernel.stretch.is_trusted is is_trusted


def test_wide_terms_leave_fewer_blocks_to_a_multiprocessor() -> None:
    x, y, z, order, ends = (*(floats(60, 64) for _ in range(3)), integers(60), integers(9))
    one = call("group_sum", x, order, ends, dim=0, skip=-1)
    product = call("mul", x, y)
    two = call("group_sum", product, order, ends, dim=0, skip=-1)
    many = call("group_sum", call("mul", product, z), order, ends, dim=0, skip=-1)
    for made, blocks in ((one, 5), (two, 4), (many, 2)):
        segment = segment_of([x, y, z, order, ends], made)
        assert lower_groups(groups.schedule(segment, H200), False).blocks_at_once == blocks


@pytest.mark.parametrize(("width", "threads", "blocks"), [(64, 256, 5), (16, 64, 20), (8, 32, 32)])
def test_small_blocks_have_no_more_registers_a_thread(
    width: int, threads: int, blocks: int
) -> None:
    x, order, ends = halves(60, width), integers(60), integers(9)
    made = call("group_sum", x, order, ends, dim=0, skip=-1)
    kernel = lower_groups(groups.schedule(segment_of([x, order, ends], made), H200), False)
    assert (kernel.threads, kernel.blocks_at_once) == (threads, blocks)


def summed_ahead(*shape: int, dim: int = 0, count: int = 90000, tables: int = 1) -> GroupKernel:
    """The kernel of a product of tables whose order is in memory and needs no check."""
    factors, index, ends = [halves(*shape) for _ in range(tables)], integers(60), integers(count)
    order = call("group_order", index, count=ints([count]))
    x = factors[0]
    for factor in factors[1:]:
        x = call("mul", x, factor)
    made = call("group_sum", x, order, ends, dim=dim, skip=-1)
    segment = segment_of([*factors, index, ends], made)
    leaves, layouts = segment.leaves | {order}, segment.layouts
    stored = Segment(segment.stores, leaves, {**layouts, order: layouts[index]})
    return lower_groups(groups.schedule(stored, H200), strict=False)


@pytest.mark.parametrize(
    ("tables", "width", "count", "ahead"),
    [
        (1, 4096, 90000, 4),
        (1, 4099, 90000, 4),
        (2, 4096, 90000, 2),  # no more than 64 bytes of a thread
        (5, 4096, 90000, 1),
        (1, 4096, 90, 1),  # few blocks: a part has a row
    ],
)
def test_the_first_terms_of_a_parts_rows_are_on_their_way_together(
    tables: int, width: int, count: int, ahead: int
) -> None:
    kernel = summed_ahead(60, width, count=count, tables=tables)
    assert kernel.ahead == ahead
    assert (f"the first of {ahead} rows ahead" in str(kernel)) is (ahead > 1)


def test_places_that_are_checked_are_not_read_ahead() -> None:
    x, order, ends = halves(60, 4096), integers(60), integers(90000)
    made = call("group_sum", x, order, ends, dim=0, skip=-1)
    segment = segment_of([x, order, ends], made)
    assert lower_groups(groups.schedule(segment, H200), strict=False).ahead == 1


def test_blocks_before_those_of_pieces_find_ends() -> None:
    kernel = lower_groups(groups.schedule(pieces_and_ends(200), H200), strict=False)
    assert kernel.blocks == kernel.row_blocks + 90
    call = "find_ends<250, 4>(T0, 131072, 90000, T1)"
    assert str(kernel).endswith(f"90 blocks before: {call}")
