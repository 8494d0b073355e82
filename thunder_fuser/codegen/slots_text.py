"""Turns of a block whose data come through slots of shared memory, as C++ text: those of the next
turns while it works."""

from __future__ import annotations

from collections.abc import Sequence

from thunder_fuser.codegen.blocks import by_first_thread, function, unrolled


def opened(slots: int) -> list[str]:
    """A mailbox for each slot, known to the thread that opens it; to others behind a barrier."""
    boxes = f"for (int slot = 0; slot < {slots}; ++slot) tf::open_mail(arrived[slot]);"
    room = f"__shared__ tf::Mailbox arrived[{slots}];"
    return [room, *by_first_thread([boxes, "tf::show_stretches();"])]


def ahead(slots: int, turns: str) -> list[str]:
    """What is sent while the block works on a turn: that of the last slot, or its own."""
    if slots == 1:
        return ["send(turn);"]
    return [f"if (turn + {slots - 1} < {turns}) send(turn + {slots - 1});"]


def arrival(slots: int) -> str:
    """Until what was sent for the turn is there."""
    return f"tf::await_mail(arrived[turn % {slots}], turn / {slots} % 2);"


def over_turns(
    slots: int,
    kind: str,
    turns: str,
    places: Sequence[str],
    sent: Sequence[str],
    once: Sequence[str],
    turn: Sequence[str],
) -> list[str]:
    """A loop over the turns of a block. `places` says where what is `sent` for a turn lies; `once`
    is what the block does before all turns, while data come."""
    first = [
        "#pragma unroll 1",
        f"for (int turn = 0; turn < {slots - 1} && turn < {turns}; ++turn) send(turn);",
    ]
    return [
        *function("send", [f"const {kind} turn"], [*places, *sent]),
        *(first if slots > 1 else []),
        *once,
        *unrolled(f"for ({kind} turn = 0; turn < {turns}; ++turn)", [*places, *turn], 1),
        "if (threadIdx.x == 0) tf::await_stores();",
        "__syncthreads();",
    ]
