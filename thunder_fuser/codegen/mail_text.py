"""Mail between the blocks of a cluster as C++ text: a mailbox for each phase of a kernel.

Where blocks walk, two mailboxes of a phase serve by turns, as do the places that their mail goes
to: a block of the cluster that is a turn ahead writes into the other ones.
"""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.codegen.blocks import by_first_thread

WHOLE_WARP = (
    "__syncwarp();  // for racecheck, which takes what a warp does as one for another thread's"
)


@dataclass(frozen=True)
class Mail:
    """`deliveries` are the bytes that a block gets in each phase, every turn where it `walks`; of a
    phase without any the mailbox is not used."""

    deliveries: tuple[int, ...]
    walks: bool

    @property
    def sets(self) -> str:
        """Behind the name of what there is two of, as it is declared."""
        return "[2]" if self.walks else ""

    @property
    def which(self) -> str:
        """Behind the name of what there is two of: that of the turn."""
        return "[turn % 2]" if self.walks else ""

    def opened(self) -> list[str]:
        """The mailboxes, and the arrival of all threads once they expect mail."""
        boxes = ["[0]", "[1]"] if self.walks else [""]
        phases = range(len(self.deliveries))
        places = [(f"mail{box}[{n}]", n) for box in boxes for n in phases if self.deliveries[n]]
        expected = [f"tf::expect_mail({place}, {self.deliveries[n]});" for place, n in places]
        return [
            f"__shared__ tf::Mailbox mail{self.sets}[{len(self.deliveries)}];",
            *by_first_thread([f"tf::open_mail({place});" for place, _ in places]),
            WHOLE_WARP,
            *by_first_thread(expected),
            "tf::cluster_arrive();",
        ]

    def box(self, phase: int) -> str:
        """The mailbox of a phase."""
        return f"mail{self.which}[{phase}]"

    def awaited(self, phase: int) -> list[str]:
        """Until the mail of a phase is there; then that of two turns on is expected."""
        if not self.walks:
            return [f"tf::await_mail({self.box(phase)});"]
        more = f"tf::expect_mail({self.box(phase)}, {self.deliveries[phase]});"
        waits = f"tf::await_mail({self.box(phase)}, turn / 2 % 2);"
        return [waits, f"if (threadIdx.x == 0) {more}"]
