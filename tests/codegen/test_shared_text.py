"""Arrays in shared memory follow one another."""

from __future__ import annotations

from thunder_fuser.codegen.shared_text import SHARED, arrays_in_shared


def test_each_array_begins_behind_the_one_before() -> None:
    assert arrays_in_shared([("t0", "float", 64), ("t1", "tf::bf16", 32), ("t2", "int", 16)]) == [
        "TF_DYNAMIC_SHARED(unsigned char, shared);",
        "float* const t0 = reinterpret_cast<float*>(shared);",
        "tf::bf16* const t1 = reinterpret_cast<tf::bf16*>(shared + 64);",
        "int* const t2 = reinterpret_cast<int*>(shared + 96);",
    ]


def test_shared_memory_may_have_no_arrays() -> None:
    assert arrays_in_shared([]) == [SHARED]
