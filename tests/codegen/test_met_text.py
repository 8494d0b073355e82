"""What the columns of a sample come to together, as text."""

from __future__ import annotations

from tests.programs import H200
from tests.schedule.segments import halves, segment_of
from tests.schedule.test_met_columns import meeting
from thunder_fuser.codegen.met_text import columns_meet, neighbours, per_sample
from thunder_fuser.kernel.kept_columns import lower_kept_columns
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.schedule import kept_columns


def met(rows: int) -> KeptKernel:
    x = halves(300, rows, 96)
    planned = kept_columns.schedule(segment_of([x], *meeting(x)), H200)
    return lower_kept_columns(planned, strict=False)


def test_all_threads_combine_what_the_first_of_each_column_left() -> None:
    kernel = met(256)
    lines = columns_meet(kernel.phases[1], kernel)
    left = lines.index("if (part == 0) T2_parts[place] = T2_part;")
    assert lines[left + 1] == "__syncthreads();"
    assert lines[-1].startswith("const float T2_row = tf::combine_warps<12>(T2_parts, ")
    assert neighbours(kernel) == []
    assert per_sample(kernel)[0] == "if (threadIdx.x == 0) {"


def test_blocks_abreast_send_each_other_theirs() -> None:
    kernel = met(577)
    lines = [line.strip() for line in columns_meet(kernel.phases[1], kernel)]
    begun = lines.index("tf::cluster_wait();")
    assert lines[begun + 1] == "if (threadIdx.x < 2) {"
    assert lines[begun + 2].startswith("tf::send_mail(T2_ranks + rank, tf::combine_warps<6>(")
    assert lines[begun + 4] == "tf::await_mail(mail[1]);"
    assert lines[-1].startswith("const float T2_row = tf::combine_warps<2>(T2_ranks, ")
    assert "tf::expect_mail(mail[1], 8);" in "\n".join(neighbours(kernel))
    assert per_sample(kernel)[0] == "if (threadIdx.x == 0 && rank == 0) {"
