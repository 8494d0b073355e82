"""What the blocks of a cluster send each other of columns that they share, as text."""

from __future__ import annotations

import pytest

from tests.programs import H200, expand, unsqueeze
from tests.schedule.segments import floats, segment_of
from tests.schedule.test_kept_columns import centred, twice
from thunder_fuser.codegen.cluster_text import exchanged, ranks, tile_number
from thunder_fuser.codegen.kept_text import kept_lines
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.kept_columns import lower_kept_columns
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.schedule import kept_columns
from thunder_fuser.schedule.parameters import KeptParameters
from thunder_fuser.segment.segment import Segment


def shared(images: int, rows: int, places: int) -> KeptKernel:
    x = floats(images, rows, places)
    return in_registers(segment_of([x], twice(x)))


def in_registers(segment: Segment) -> KeptKernel:
    planned = kept_columns.schedule(segment, H200, KeptParameters(slots=False))
    return lower_kept_columns(planned, strict=False)


def test_a_block_sends_what_it_has_to_all_others_in_whole_accesses() -> None:
    kernel = shared(2674, 512, 49)
    assert kernel.cluster == 2
    first, _ = kernel.phases
    lines = [line.strip() for line in exchanged(first, kernel)]
    assert lines[0] == "__shared__ __align__(16) float T1_ranks[2][52];"
    kept = lines.index("T1_ranks[rank][n] = T1_parts[0][n];")
    sent = lines.index("tf::send_stretch(T1_ranks[rank], 52, mail[0], threadIdx.x);")
    shown, met = lines.index("tf::show_stretches();"), lines.index("__syncthreads();")
    waits = lines.index("tf::await_mail(mail[0]);")
    whole = lines.index("T1_parts[0][n] = T1_whole;")
    assert kept < shown < met < sent < waits < whole < len(lines) - 1
    assert lines[-1] == "__syncthreads();"
    assert "for (int n = threadIdx.x; n < 49; n += 490) {" in lines


def test_every_phase_has_a_mailbox() -> None:
    kernel = shared(2674, 512, 49)
    text = "\n".join(ranks(kernel))
    assert "const int rank = blockIdx.x % 2;" in text
    assert "tf::expect_mail(mail[0], 208);" in text
    assert "tf::expect_mail(mail[1], 208);" in text
    assert "tf::cluster_arrive();" in text
    first, second = ("\n".join(exchanged(phase, kernel)) for phase in kernel.phases)
    assert first.index("tf::cluster_wait();") < first.index("tf::send_stretch(")
    assert "tf::cluster_wait();" not in text + second
    assert "mail[1]" in second


def test_sums_of_a_phase_are_one_delivery() -> None:
    x = floats(668, 512, 49)
    largest = call("max", x, dims=(1,))
    made = call("sub", centred(x), expand(unsqueeze(largest, 1), *x.shape))
    kernel = in_registers(segment_of([x], made))
    (phase,) = kernel.phases
    assert len(phase.sums) == 2
    sent = 4 * 52 * 2 * (kernel.cluster - 1)
    assert f"tf::expect_mail(mail[0], {sent});" in "\n".join(ranks(kernel))


@pytest.mark.parametrize(
    ("shape", "tile"), [((2674, 512, 49), "(blockIdx.x / 2)"), ((668, 64, 784), "blockIdx.x")]
)
def test_the_blocks_of_a_cluster_have_one_tile(shape: tuple[int, int, int], tile: str) -> None:
    kernel = shared(*shape)
    assert tile_number(kernel) == tile
    assert (ranks(kernel) == []) == (tile == "blockIdx.x")
    assert (exchanged(kernel.phases[0], kernel) == []) == (tile == "blockIdx.x")


def test_memory_that_others_read_ends_once_all_have_their_mail() -> None:
    lines = [line.strip() for line in kept_lines(shared(2674, 512, 49))]
    arrived = [k for k, line in enumerate(lines) if line == "tf::cluster_arrive();"]
    waited = [k for k, line in enumerate(lines) if line == "tf::cluster_wait();"]
    assert len(arrived) == len(waited) == 2
    assert lines.index("tf::await_mail(mail[1]);") < arrived[1] < waited[1] == len(lines) - 1
