"""Turns of a block whose data come through slots."""

from __future__ import annotations

import pytest

from thunder_fuser.codegen.slots_text import ahead, arrival, opened, over_turns


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_every_slot_has_a_mailbox(slots: int) -> None:
    lines = opened(slots)
    assert lines[0] == f"__shared__ tf::Mailbox arrived[{slots}];"
    assert "__syncthreads();" not in lines  # as the thread that opens them may go on


def test_a_slot_is_filled_again_a_turn_before_it_is_needed() -> None:
    assert ahead(1, "turns") == ["send(turn);"]
    assert ahead(3, "turns") == ["if (turn + 2 < turns) send(turn + 2);"]
    assert arrival(3) == "tf::await_mail(arrived[turn % 3], turn / 3 % 2);"


@pytest.mark.parametrize("slots", [1, 2])
def test_what_a_block_does_once_it_does_while_data_come(slots: int) -> None:
    lines = over_turns(slots, "int", "7", ["where"], ["what"], ["once"], ["work"])
    assert lines[:4] == ["const auto send = [&](const int turn) {", "  where", "  what", "};"]
    first = [k for k, line in enumerate(lines) if line.endswith("send(turn);")]
    assert len(first) == slots - 1
    assert lines.index("once") > max(first, default=0)
    assert lines.index("once") < lines.index("for (int turn = 0; turn < 7; ++turn) {")
    assert lines[-2:] == ["if (threadIdx.x == 0) tf::await_stores();", "__syncthreads();"]
