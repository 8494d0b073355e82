"""Which rows a thread has, as text."""

from __future__ import annotations

from tests.codegen.test_row_text import kernel_of, unmarked
from tests.programs import total
from tests.schedule.segments import floats, halves
from tests.schedule.test_rows import softmax
from thunder_fuser.codegen.row_threads import if_active, rows_of_thread, turns_text


def test_a_row_of_a_block_has_all_of_its_threads() -> None:
    x = floats(300, 4096)
    assert unmarked(rows_of_thread(kernel_of([x], total(x, 1)))) == [
        "const int part = threadIdx.x;",
        "const int group = blockIdx.x;",
    ]


def test_where_rows_are_fewer_than_a_block_has_the_last_one_is_done_again() -> None:
    x = floats(300, 64)
    kernel = kernel_of([x], total(x, 1))
    assert (kernel.threads_per_row, kernel.rows_per_block) == (2, 64)
    assert unmarked(rows_of_thread(kernel)) == [
        "const int part = threadIdx.x % 2;",
        "const int wanted = blockIdx.x * 64 + threadIdx.x / 2;",
        "const bool is_active = wanted < 300;",
        "const int group = is_active ? wanted : 300 - 1;",
    ]
    assert if_active(kernel, ["store();"]) == ["if (is_active) {", "  store();", "}"]


def test_the_blocks_of_a_cluster_have_parts_of_one_row() -> None:
    x = halves(400, 65536)
    clustered = kernel_of([x], softmax(x))
    assert clustered.cluster == 2
    assert unmarked(rows_of_thread(clustered))[1:] == [
        f"const int part = rank * {clustered.threads} + threadIdx.x;",
        f"const int group = blockIdx.x / {clustered.cluster};",
    ]


def test_a_block_that_walks_no_rows_has_one_turn() -> None:
    x = floats(300, 4096)
    assert unmarked([turns_text(kernel_of([x], total(x, 1)))]) == ["1"]
