"""Kept column kernels: what is loaded once, and what each phase does with it."""

from __future__ import annotations

import re
from textwrap import dedent

import pytest

from tests.programs import H200, chain, expand, total, unsqueeze
from tests.schedule.segments import floats, halves, segment_of
from tests.schedule.test_kept_columns import centred, spread, twice
from thunder_fuser.codegen.kept_text import kept_lines
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.kept_columns import lower_kept_columns
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.schedule import kept_columns
from thunder_fuser.segment.segment import Segment


def kernel_of(segment: Segment, strict: bool = False) -> KeptKernel:
    return lower_kept_columns(kept_columns.schedule(segment, H200), strict)


def text_of(*results: TensorView, of: TensorView) -> str:
    lines = kept_lines(kernel_of(segment_of([of], *results)))
    return "\n".join(lines).replace("\x01", "").replace("\x02", "")


def test_rows_are_kept_and_columns_are_read_once() -> None:
    x, shift = halves(40, 64), halves(64)
    made = call("add", centred(x), spread(shift, x))
    kernel = kernel_of(segment_of([x, shift], made, chain(total(x, 0), "neg")))
    assert str(kernel) == dedent("""\
        kept column kernel 4 blocks of 2 x 32 threads
          rows 40 vectors 8 lanes 8
          v0 = load T5[8*vector], 8 x bf16, 16 bytes at a time
          v1 = load T0[64*row + 8*vector], 8 x bf16, 16 bytes at a time
          phase 0
            T0_0: f32 = v1[k][1*lane + 0]
            T1_part[lane] sum= T0_0
            T9_part[lane] sum= T0_0
            T1_row = sum(T1_part)
            T9_row = sum(T9_part)
          per row
            T5_0: f32 = v0[1*lane + 0]
            T0_1: f32 = v1[k][1*lane + 0]
            T4_0: f32 = sub(T0_1, T1_row[lane])
            T8_0: f32 = add(T4_0, T5_0)
            w0[1*lane + 0] = T8_0
            store w0 -> T8[64*row + 8*vector], 8 x bf16, 16 bytes at a time
          per column
            T10_0: f32 = neg(T9_row[lane])
            w0[1*lane + 0] = T10_0
            store w0 -> T10[8*vector], 8 x bf16, 16 bytes at a time""")


@pytest.mark.parametrize(("strict", "rounds"), [(True, 1), (False, 0)])
def test_strict_rounds_the_sums_as_the_trace_does(strict: bool, rounds: int) -> None:
    x = halves(40, 64)
    (phase,) = kernel_of(segment_of([x], centred(x)), strict).phases
    assert [s.rounded is not None for s in phase.sums] == [bool(rounds)]


def weighed(images: int, rows: int) -> KeptKernel:
    """Sums of columns below their maximum, by a factor that each has of its own."""
    x, factor = halves(images, rows, 64), floats(images, 64)
    wide = call("cast", x, dtype=DataType.Float)
    top = expand(unsqueeze(call("max", wide, dims=(1,)), 1), *x.shape)
    below = total(call("sub", wide, top), 1)
    return kernel_of(segment_of([x, factor], call("mul", below, factor)))


def test_a_thread_ends_with_a_column_of_those_that_read_memory_once() -> None:
    _, last = str(weighed(3, 40)).split("  a column a thread\n")
    assert dedent(last) == dedent("""\
            v0_own = load T7[8*vector + lane], 1 x f32, 4 bytes at a time
            T7_0: f32 = v0_own[0*lane + 0]
            T8_0: f32 = mul(T6_own, T7_0)
            w0[0*lane + 0] = T8_0
            store w0 -> T8[8*vector + lane], 1 x f32, 4 bytes at a time""")


def test_it_knows_of_the_sums_what_it_needs() -> None:
    kernel = str(weighed(3, 40))
    assert "    T2_row = max(T2_part)\n" in kernel
    assert "    T6_own = sum(T6_part)\n" in kernel
    assert "T2_own" not in kernel
    assert "T6_row" not in kernel
    text = "\n".join(kept_lines(weighed(3, 40))).replace("\x01", "").replace("\x02", "")
    assert text.index("const auto v0_own = tf::load") < text.index("float T2_part[8]")
    assert "const float T6_own = T6_parts[0][lane * 2 + place];" in text
    assert "T2_own" not in text
    assert "T2_row[8]" in text
    assert "T6_row" not in text
    assert "if (part < 8) {" in text


def test_where_threads_down_are_fewer_than_lanes_one_has_all_of_a_vector() -> None:
    kernel = weighed(4096, 40)
    assert kernel.threads_down < kernel.axes.lanes
    assert not kernel.is_spread
    assert "per column" in str(kernel)


def test_every_phase_has_a_result_for_all_threads() -> None:
    x = floats(40, 64)
    first, second = kernel_of(segment_of([x], twice(x))).phases
    assert [s.name for s in (*first.sums, *second.sums)] == ["T1", "T5"]
    assert "T1_row[lane]" in str(second.scope.statements)


def test_threads_beyond_the_last_vector_take_part_in_sums_alone() -> None:
    cut, whole = floats(3, 300, 4 * 1111), floats(3, 300, 4 * 1024)
    text = text_of(centred(cut), of=cut)
    assert "const bool is_active = wanted < 3333;" in text
    assert "if (is_active) {" in text
    assert "is_active" not in text_of(centred(whole), of=whole)


def test_rows_that_not_all_threads_have_are_tested_for() -> None:
    odd, even = floats(300, 4096), floats(256, 4096)
    assert "if ((k + 1) * 64 <= 300 || row < 300) {" in text_of(centred(odd), of=odd)
    assert "row < " not in text_of(centred(even), of=even)


def test_the_threads_of_a_warp_have_one_part_of_a_column() -> None:
    x = halves(64, 256, 3136)
    text = text_of(centred(x), of=x)
    assert "__shared__ float T1_parts[8][64];" in text
    assert "tf::meet_in_warp<8>(T1_part, T1_parts, " in text
    assert "tf::combine_parts<256, 0>(T1_parts, " in text


def test_the_parts_of_sums_beside_each_other_are_left_to_other_warps() -> None:
    x = halves(64, 256, 3136)
    largest = call("max", x, dims=(1,))
    text = text_of(call("sub", centred(x), expand(unsqueeze(largest, 1), *x.shape)), of=x)
    found = re.findall(r"tf::combine_parts<256, (\d+)>", text)
    assert found == ["0", "64"]


def test_threads_of_other_columns_have_parts_of_their_own() -> None:
    x = halves(64, 256, 1031)  # of single elements, 32 across
    text = text_of(centred(x), of=x)
    assert "tf::combine_columns<" in text
    assert "meet_in_warp" not in text
