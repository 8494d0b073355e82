"""Column kernels: what is done per row and what once per column."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from textwrap import dedent

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import (
    H200,
    SMALL,
    chain,
    check,
    cuda_kernels,
    fusion,
    ints,
    like,
    pad,
    piece,
    total,
    whole,
)
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.analysis.layout import output_layout
from thunder_fuser.analysis.reductions import MAX_SHORT_REDUCTION
from thunder_fuser.codegen.column_text import column_lines
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.column_ir import ColumnKernel
from thunder_fuser.kernel.columns import lower_columns
from thunder_fuser.kernel.statements import VectorAccess
from thunder_fuser.presegment.pack_rows import pack_rows
from thunder_fuser.schedule import columns
from thunder_fuser.segment.segment import Segment


def accesses(segment: Segment) -> tuple[Sequence[VectorAccess], Sequence[VectorAccess]]:
    """The loads of a row, and the stores."""
    loop = lower_columns(columns.schedule(segment, H200), False).loop
    return loop.loads, loop.stores


def printed(segment: Segment, strict: bool = False) -> str:
    return str(lower_columns(columns.schedule(segment, H200), strict))


def test_rows_are_accumulated_and_the_rest_is_done_once_per_column() -> None:
    x, shift = halves(40, 64), halves(64)
    made = call("add", chain(total(chain(x, "exp"), 0), "neg"), shift)
    assert printed(segment_of([x, shift], made)) == dedent("""\
        column kernel 4 blocks of 2 x 32 threads
          rows 40, 2 at a time, vectors 8 lanes 8
          per row
            v0 = load T0[64*row + 8*vector], 8 x bf16, 16 bytes at a time, streaming
            T0_0: f32 = v0[1*lane + 0]
            T1_0: f32 = exp(T0_0)
            T2_part[lane] sum= T1_0
          per column
            v1 = load T4[8*vector], 8 x bf16, 16 bytes at a time
            T4_0: f32 = v1[1*lane + 0]
            T3_0: f32 = neg(T2_row[lane])
            T5_0: f32 = add(T3_0, T4_0)
            w0[1*lane + 0] = T5_0
            store w0 -> T5[8*vector], 8 x bf16, 16 bytes at a time""")


def test_the_plane_is_stored_while_it_is_walked() -> None:
    x = floats(40, 64)
    e = chain(x, "exp")
    per_row, per_column = printed(segment_of([x], e, total(e, 0))).split("  per column\n")
    assert "store w0 -> T1[64*row + 4*vector]" in per_row
    assert "store w0 -> T2[4*vector]" in per_column


def test_rows_beside_a_row_are_vectors_that_are_left_out_at_an_end() -> None:
    """The weights of a causal convolution have sums of what lies rows apart."""
    x, g = halves(16, 40, 64), halves(16, 40, 64)
    before = pad(piece(x, 1, 0, 39), (0, 0, 1, 0))
    segment = segment_of([x, g], total(call("mul", g, before), 0, 1))
    loads, _ = accesses(segment)
    assert [(load.length, len(load.guards)) for load in loads] == [(8, 0), (8, 1)]


def test_what_is_read_once_streams_unless_rows_are_stored() -> None:
    """Nor does what all rows share."""
    x, weight = floats(4096, 1024), floats(1024)
    terms = call("mul", x, call("expand", weight, shape=ints([4096, 1024])))
    segment = segment_of([x, weight], total(terms, 0))
    loads, _ = accesses(segment)
    streaming = {load.pointer: load.is_streaming for load in loads}
    assert streaming == {segment.names[x]: True, segment.names[weight]: None}
    loads, _ = accesses(segment_of([x, weight], terms, total(terms, 0)))
    assert {load.is_streaming for load in loads} == {None}


def test_blocks_that_share_columns_walk_side_by_side_unless_they_store_rows() -> None:
    x = floats(16384, 1024)
    kernel = lower_columns(columns.schedule(segment_of([x], total(x, 0)), H200), False)
    assert "splits side by side" in str(kernel)
    assert kernel.are_rows_dealt
    text = "\n".join(column_lines(kernel))
    assert "const int last" not in text
    stored = segment_of([x], chain(x, "neg"), total(x, 0))
    kernel = lower_columns(columns.schedule(stored, H200), False)
    assert kernel.splits > 1
    assert not kernel.are_rows_dealt
    assert "const int last = first +" in "\n".join(column_lines(kernel))


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device", "few_multiprocessors")
@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("extents", [(1024, 256), (1031, 264), (2053, 37), (4099, 8), (1283, 129)])
def test_each_row_is_summed_by_one_of_the_blocks_that_share_columns(
    extents: tuple[int, int], is_stored: bool
) -> None:
    x = whole(*extents)
    (a,) = like(x)
    results = [total(a, 0), *([chain(a, "neg")] if is_stored else [])]
    program = fusion([a], *results)
    _, kernels = cuda_kernels(program, x, target=SMALL)
    assert all(k.splits > 1 for k in kernels if isinstance(k, ColumnKernel))
    check(program, x)


def test_a_stored_plane_that_no_sum_reads_is_computed_per_row_as_well() -> None:
    x = floats(40, 64)
    per_row, _ = printed(segment_of([x], chain(x, "neg"), total(x, 0))).split("  per column\n")
    assert ": f32 = neg(T0_0)" in per_row


@pytest.mark.parametrize(("strict", "rounds"), [(True, 1), (False, 0)])
def test_strict_rounds_each_term_as_the_trace_does(strict: bool, rounds: int) -> None:
    x = halves(40, 64)
    text = printed(segment_of([x], total(chain(x, "exp"), 0)), strict)
    assert text.split("  per column")[0].count("round(") == rounds


def test_a_prime_width_is_walked_without_lanes() -> None:
    x = floats(40, 37)
    assert "T1_part[0] sum= T0_0" in printed(segment_of([x], total(x, 0)))


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device", "few_multiprocessors")
@pytest.mark.parametrize("extents", [(1033, 1031), (1039, 1031), (4803, 907)])
def test_the_vector_in_which_the_last_pack_of_rows_ends_is_done_by_elements(
    extents: tuple[int, int],
) -> None:
    x, weight = whole(*extents), whole(extents[1])
    a, b = like(x, weight)
    made = call("mul", a, b)
    program = fusion([a, b], made, total(made, 0), total(a, 0))
    layouts = {tv: output_layout(tv) for tv in (a, b)}
    packs = pack_rows(program, layouts, SMALL)
    _, kernels = cuda_kernels(packs, x, weight, target=SMALL)
    (walked,) = (k for k in kernels if isinstance(k, ColumnKernel) and k.end is not None)
    text = "\n".join(column_lines(walked))
    assert text.count("load_within") == text.count("store_within") == 1
    assert (walked.splits > 1) == (extents[0] > 4096)
    check(program, x, weight)


def causal(x: TensorView, out: TensorView, *weights: TensorView) -> list[TensorView]:
    """The gradients of a causal convolution of each column, behind a costly function."""
    taps, rows = len(weights), x.shape[1]
    before = pad(x, [0, 0, taps - 1, 0, 0, 0])
    read = [piece(before, 1, k, k + rows) for k in range(taps)]
    made = reduce(partial(call, "add"), map(partial(call, "mul"), read, weights))
    inner = call("mul", chain(made, "exp2"), out)
    after = pad(inner, [0, 0, 0, taps - 1, 0, 0])
    moved = [piece(after, 1, taps - 1 - k, taps - 1 - k + rows) for k in range(taps)]
    whole = reduce(partial(call, "add"), map(partial(call, "mul"), moved, weights))
    return [whole, *(total(call("mul", inner, tv), 0, 1) for tv in read)]


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device", "few_multiprocessors")
@pytest.mark.parametrize(
    ("extents", "taps"),
    [((3, 1024, 64), 4), ((1, 1283, 37), 3), ((41, 50, 20), 2), ((700, 3, 64), 4)],
)
def test_what_rows_behind_came_to_is_kept_by_a_thread_that_walks_up(
    extents: tuple[int, int, int], taps: int
) -> None:
    x, out = (torch.randint(-1, 2, extents).float() for _ in range(2))
    weights = [torch.randint(-1, 2, extents[-1:]).float() for _ in range(taps)]
    a, b, *c = like(x, out, *weights)
    program = fusion([a, b, *c], *causal(a, b, *c))
    _, kernels = cuda_kernels(program, x, out, *weights, target=SMALL)
    (kernel,) = (k for k in kernels if isinstance(k, ColumnKernel))
    assert [delay.rows for delay in kernel.delays] == [min(taps, extents[1]) - 1]
    assert str(kernel.loop).count("exp2") == 1
    check(program, x, out, *weights, orders=ORDERS)


@pytest.mark.usefixtures("device", "few_multiprocessors")
def test_rows_that_are_only_summed_follow_each_other_too() -> None:
    x = torch.randint(-1, 2, (2, 1100, 32)).float()
    (a,) = like(x)
    made = chain(a, "exp2")
    behind = piece(pad(made, [0, 0, 0, 1, 0, 0]), 1, 1, 1101)
    program = fusion([a], total(call("mul", made, behind), 0, 1))
    _, kernels = cuda_kernels(program, x, target=SMALL)
    (kernel,) = (k for k in kernels if isinstance(k, ColumnKernel))
    assert kernel.delays
    assert kernel.splits > 1
    assert not kernel.loop.stores
    check(program, x, orders=ORDERS)


@pytest.mark.parametrize(("value", "selects"), [(0.0, 0), (1.0, 1)])
def test_what_is_read_as_zero_beside_a_pad_is_not_selected(value: float, selects: int) -> None:
    x = halves(40, 64)
    before = pad(piece(x, 0, 0, 39), [0, 0, 1, 0], value)
    text = printed(segment_of([x], total(call("mul", before, x), 0)))
    assert text.count(f" else {value} where 0 <= -1 + row < 39") == selects
    assert text.count(" else ") == selects


@pytest.mark.parametrize("rows", [5, 96, 1000, 3072])
def test_truths_are_counted_in_words_and_integers_without_tests(rows: int) -> None:
    """Of whole batches and of what is left over, in all orders of threads."""
    x = torch.randint(-9, 9, (rows, 40)).to(torch.int32)
    (a,) = like(x)
    truths = call("cast", call("gt", a, chain(a, "neg")), dtype=DataType.Int)
    program = fusion([a], total(truths, 0), call("max", a, dims=(0,)))
    check(program, x, orders=ORDERS)
    segment = segment_of([a], total(truths, 0))
    if rows > MAX_SHORT_REDUCTION:
        kernel = lower_columns(columns.schedule(segment, H200), False)
        assert [total.dtype for total in kernel.sums] == [DataType.Int32]
