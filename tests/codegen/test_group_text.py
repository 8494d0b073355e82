"""The text of group kernels: widths of indices, skipped groups, what a batch holds."""

from __future__ import annotations

import pytest

from tests.programs import H200, permute
from tests.schedule.segments import floats, halves, segment_of
from tests.schedule.test_groups import pieces_and_ends
from thunder_fuser.codegen.group_text import group_lines
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.groups import lower_groups
from thunder_fuser.schedule import groups


def text_of(x: TensorView, rows: int, skip: int = -1) -> str:
    order, ends = tensor(DataType.Int, x.shape[0]), tensor(DataType.Int, rows)
    made = call("group_sum", x, order, ends, dim=0, skip=skip)
    inputs = [x, order, ends]
    if x.definition is not None:
        inputs += x.definition.tensors
    segment = segment_of([tv for tv in inputs if tv.definition is None], made)
    lines = group_lines(lower_groups(groups.schedule(segment, H200), strict=False))
    return "\n".join(lines).replace("\x01", "").replace("\x02", "")


@pytest.mark.parametrize(("rows", "kind"), [(2**20 - 1, "int"), (2**20 + 8, "long long")])
def test_offsets_from_2_31_on_are_64_bits_wide(rows: int, kind: str) -> None:
    text = text_of(floats(60, 2048), rows)
    assert f"const {kind} first = " in text
    assert f"for ({kind} row = first + part; row < last; row += 8)" in text


def test_a_skipped_group_has_no_stretch() -> None:
    assert "if ((row) == 7) end = begin;" in text_of(floats(60, 24), 9, skip=7)
    assert "end = begin" not in text_of(floats(60, 24), 9)


def test_ends_of_nobody_knows_whom_are_cut_to_the_order() -> None:
    assert "end = (int)(T2_1 < 60 ? T2_1 : 60);" in text_of(floats(60, 24), 9)


def test_a_batch_of_vectors_is_on_its_way_before_the_first_is_added() -> None:
    text = text_of(floats(60, 24), 9)
    assert "tf::Vec<float, 4> v0[4];" in text
    assert text.index("v0[k] = tf::load<") < text.index("T3_part[lane] = T3_part[lane] + ")


def test_what_no_vector_holds_is_read_where_it_is_added() -> None:
    turned = text_of(permute(floats(24, 60), 1, 0), 9)
    assert "v0[4]" not in turned
    place = turned.index("in_range(")
    assert place < turned.index("for (int lane = 0; lane < 4; ++lane) {", place)


def test_a_vector_of_an_odd_row_is_put_together_and_stored_where_the_row_has_it() -> None:
    text = text_of(halves(64, 577), 9)
    first = "(-577 * row + 8 * ((577 * row) / 8) + 8 * vector)"
    source = "T0 + (-577 * row + 577 * T1_1 + 8 * ((577 * row) / 8) + 8 * vector)"
    assert f"v0[k] = tf::load_row<tf::bf16, 8>({source}, {first}, 577);" in text
    target = "T3 + (8 * ((577 * row) / 8) + 8 * vector)"
    assert f"tf::store_row<16, 1>({target}, w0, {first}, 577);" in text
    assert "tf::store_row<16, 2>(" in text_of(halves(60, 66), 9)


def test_vectors_at_the_end_of_memory_that_is_inside_a_word_read_no_word() -> None:
    text = text_of(halves(60, 577), 9)
    steps = (
        "if (tf::end_before<8>(v0_at, T0 + 34620)) {",
        "v0[k] = tf::load_row<tf::bf16, 8>(v0_at[k], ",
        "} else {",
        "v0[k] = tf::row_elements<tf::bf16, 8>(v0_at[k], ",
    )
    places = [text.index(step) for step in steps]
    assert places == sorted(places)
    assert "end_before" not in text_of(halves(64, 577), 9)


def test_a_term_that_the_last_batch_lacks_is_loaded_outside_of_branches_and_taken_back() -> None:
    text = text_of(floats(60, 24), 9)
    assert "const int term = start + k * step < end ? start + k * step : start;" in text
    assert "if (!has_term) T3_part[lane] = T3_kept;" in text


def test_blocks_of_rows_behind_others_are_numbered_anew() -> None:
    kernel = lower_groups(groups.schedule(pieces_and_ends(200), H200), strict=False)
    lines = [line.replace("\x01", "").replace("\x02", "") for line in group_lines(kernel)[:7]]
    assert lines == [
        "if (blockIdx.x < 90) {",
        "  tf::find_ends<250, 4>(T0, 131072, 90000, T1);",
        "  return;",
        "}",
        "const int part = threadIdx.x / 25;",
        "const int vector = (blockIdx.x - 90) % 1 * 25 + threadIdx.x % 25;",
        "const int first = (blockIdx.x - 90) / 1 * 3;",
    ]
