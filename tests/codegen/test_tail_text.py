"""Which blocks go on behind their rows, as text."""

from __future__ import annotations

from tests.programs import H200, chain, expand, total, unsqueeze
from tests.schedule.segments import floats, segment_of
from thunder_fuser.codegen.row_text import row_lines
from thunder_fuser.codegen.tail_text import with_tail
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.schedule import rows


def kernel_of(x: TensorView, *outputs: TensorView) -> RowKernel:
    return lower_rows(rows.schedule(segment_of([x], *outputs), H200), strict=False)


def text_of(kernel: RowKernel) -> str:
    """Without the marks of literals."""
    lines = "\n".join(row_lines(kernel))
    return "".join(c for c in lines if c >= " " or c == "\n")


def test_rows_alone_are_followed_by_nothing() -> None:
    x = floats(40, 64)
    lines = ["const int part = threadIdx.x;"]
    assert with_tail(lines, kernel_of(x, total(x, 1))) == lines


def test_blocks_of_several_rows_are_counted_once_they_left_all_of_them() -> None:
    x = floats(1001, 64)
    kernel = kernel_of(x, total(total(x, 1), 0))
    assert kernel.rows_per_block == 64
    lines = [line.strip() for line in text_of(kernel).splitlines()]
    drawn = lines.index("if (!tf::is_last_warp(tickets + bundle, (end - begin + 63) / 64)) return;")
    assert lines.index("__syncthreads();") < drawn


def test_one_warp_of_a_block_waits_for_its_ticket() -> None:
    x = floats(1001, 4096)
    lines = text_of(kernel_of(x, total(total(x, 1), 0))).splitlines()
    first, second = (k for k, line in enumerate(lines) if "tf::is_last_warp" in line)
    assert lines.index("if (threadIdx.x >= 32) return;") < first < second
    assert not any("__syncthreads" in line for line in lines[first:])


def test_one_block_of_a_cluster_is_counted() -> None:
    x = floats(400, 65536)
    top = call("max", x, dims=(1,))
    kernel = kernel_of(x, call("sub", x, expand(unsqueeze(top, 1), 400, 65536)), total(top, 0))
    assert kernel.cluster > 1
    lines = [line.strip() for line in text_of(kernel).splitlines()]
    counted = lines.index("if (!tf::is_last_warp(tickets + bundle, end - begin)) return;")
    assert lines.index("if (rank != 0) return;") < counted


def test_the_tickets_of_bundles_and_of_all_lie_behind_those_of_shared_rows() -> None:
    x = floats(300, 1 << 20)
    kernel = kernel_of(x, chain(total(total(x, 1), 0), "exp"))
    assert kernel.splits > 1
    first, second, third = (line for line in text_of(kernel).splitlines() if "tf::is_last" in line)
    assert "tickets + group" in first
    assert "tickets + 300 + bundle, end - begin)" in second
    assert "tickets + 300 + 2, 2)" in third
