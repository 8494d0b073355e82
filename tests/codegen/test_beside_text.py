"""Sums over columns beside those that are kept, as text."""

from __future__ import annotations

import torch

from tests.schedule.test_kept_tiles import walked
from thunder_fuser.codegen.beside_text import results_beside, row_of_thread, sums_beside
from thunder_fuser.kernel.kept_columns import lower_kept_columns
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.target import WARP


def kernel_of(shape: tuple[int, ...], dtype: torch.dtype, is_turned: bool = False) -> KeptKernel:
    return lower_kept_columns(walked(shape, dtype, is_turned), strict=False)


def text(lines: list[str]) -> str:
    """Without the marks of literals."""
    joined = "\n".join(lines)
    return "".join(c for c in joined if c >= " " or c == "\n")


def test_threads_of_a_warp_meet_by_shuffles() -> None:
    kernel = kernel_of((64, 192, 784), torch.bfloat16)
    assert not kernel.meets_in_shared
    found = text(results_beside(kernel))
    assert f"tf::warp_reduce<{kernel.threads_across}>(" in found
    assert "const int row = k * 64 + part;" in found
    assert "if (place == 0 && row < 192) {" in found
    assert kernel.shared_bytes == 0


def test_those_of_images_meet_in_shared_memory() -> None:
    kernel = kernel_of((1069, 320, 196), torch.float32)
    assert kernel.meets_in_shared
    assert kernel.threads_across % WARP
    total = kernel.beside[0]
    held = kernel.rows_per_thread * kernel.threads
    assert kernel.met_bytes(total) == 4 * held
    assert kernel.shared_bytes == 8 * held
    found = text(results_beside(kernel))
    assert f"{total.name}_met[k * {kernel.threads} + threadIdx.x] = {total.name}_sum[k];" in found
    assert "for (int own = threadIdx.x / 32; own < 80; own += 15) {" in found
    assert "const int row = rank * 80 + own;" in found
    assert "if (threadIdx.x < 480) {" in found  # 490 threads: the last warp is none
    assert found.index("_sum[k];") < found.index("__syncthreads();") < found.index("_met[own * 49")


def test_each_row_of_a_thread_has_a_sum() -> None:
    kernel = kernel_of((1069, 320, 196), torch.float32)
    found = text(sums_beside(kernel, kernel.rows_per_thread))
    for total in kernel.beside:
        assert f"float {total.name}_sum[8];" in found
        assert f"{total.name}_sum[k] = float(0);" in found


def test_a_block_has_its_own_rows() -> None:
    shared, alone = (
        kernel_of(shape, torch.float32) for shape in ((1069, 320, 196), (64, 320, 784))
    )
    assert text([row_of_thread(shared, "own")]) == "const int row = rank * 80 + own;"
    assert text([row_of_thread(alone, "own")]) == "const int row = own;"
