"""The text of rows that pass through shared memory."""

from __future__ import annotations

from tests.schedule.segments import halves
from tests.schedule.test_staged import scheduled
from thunder_fuser.codegen.emit import emit
from thunder_fuser.kernel.rows import lower_rows


def test_the_stretches_of_a_block_are_vectors_and_a_thread_takes_elements_of_its_row() -> None:
    kernel = lower_rows(scheduled(halves(64, 32, 49), halves(32, 49)), strict=False)
    text = emit(kernel).text
    assert kernel.shared_bytes == 3 * 64 * 49 * 2
    assert "const int first = blockIdx.x * 3136;" in text
    assert " + at % 1568);" in text
    assert "v1[k].v[0] = v1_rows[place + vector];" in text
    assert "w0_rows[place + vector] = w0.v[0];" in text
    assert "if (at < 100352) tf::store<16>(" in text


def test_of_a_vector_in_which_the_plane_ends_elements_are_moved_alone() -> None:
    text = emit(lower_rows(scheduled(halves(4095, 49)), strict=False)).text
    assert "if (at + 8 <= 200655) tf::copy_async<16>(" in text
    alone = "else for (int lane = 0; at + lane < 200655; ++lane) "
    assert text.count(alone) == 2
    assert f"{alone}v0_rows[k * 8 + lane] = T0[at + lane];" in text
