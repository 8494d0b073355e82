"""The text of rows that pass through shared memory."""

from __future__ import annotations

from dataclasses import replace

from tests.schedule.segments import halves
from tests.schedule.test_staged import scheduled
from thunder_fuser.codegen.emit import emit
from thunder_fuser.kernel.rows import lower_rows


def test_the_stretches_of_a_block_are_vectors_and_a_thread_takes_elements_of_its_row() -> None:
    kernel = lower_rows(scheduled(halves(64, 32, 49), halves(32, 49)), strict=False)
    text = emit(kernel).text
    assert kernel.shared_bytes == 3 * 64 * 49 * 2
    assert "const int start = blockIdx.x * 64;" in text
    assert "const int at = start * 49 + k * 8;" in text
    assert " + at % 1568);" in text
    assert "v1[k] = tf::load<tf::bf16, 1, 2>(v1_rows + place + vector);" in text
    assert "tf::store<2>(w0_rows + place + vector, w0);" in text
    assert "if (at < 100352) tf::store<16>(" in text


def test_of_a_vector_in_which_the_plane_ends_a_thread_moves_each_element() -> None:
    text = emit(lower_rows(scheduled(halves(4095, 49)), strict=False)).text
    assert "if (at < 200648) tf::copy_async<16>(" in text
    rest = """
  if (threadIdx.x < 7) {
    const int at = 200648 + threadIdx.x;
    const int place = at - start * 49;
    if (place >= 0 && place < 3136) """
    assert f"{rest}v0_rows[place] = T0[at];" in text
    assert text.count(rest) == 2


def test_stretches_of_rows_that_begin_inside_a_vector_begin_with_it() -> None:
    """The last block has three rows of five; a vector with elements of two blocks is stored in
    parts."""
    kernel = lower_rows(replace(scheduled(halves(4098, 49)), rows_per_block=5), strict=False)
    text = emit(kernel).text
    assert kernel.shared_bytes == 2 * 256 * 2
    assert "const int begin = start * 49 / 8 * 8;" in text
    assert "const int place = int(group * 49 - begin);" in text
    assert "const int end = own + int(4098 - start < 5 ? 4098 - start : 5) * 49;" in text
    assert "if (k * 8 >= own && k * 8 + 8 <= end) tf::store<16>(T" in text
    assert "if (place < (own + 7) / 8 * 8) T" in text
    assert "if (place >= end / 8 * 8) T" in text
