"""What the rows of columns cost a block that keeps them: threads that share them, and registers of
each."""

from __future__ import annotations

from dataclasses import dataclass

from thunder_fuser.analysis.digits import ceil_div

HELD = 32  # registers of a thread for what it keeps
SCRATCH = 24  # that it needs beside its rows, its sums and their results


@dataclass(frozen=True)
class KeptRows:
    """`rows` of a vector of columns, of each of which a thread has `kept` registers and the sums
    `beside`; and registers of what is summed along the columns and of the `results`."""

    rows: int
    kept: int
    beside: int
    results: int

    def threads(self, limit: int = HELD) -> int:
        """The fewest for a column, each with up to `limit` registers of its rows: a power of
        two."""
        down = 1
        while ceil_div(self.rows, down) * self.kept > limit and down < self.rows:
            down *= 2
        return down

    def registers(self, down: int) -> int:
        """Of a thread that has every so many-th row."""
        return ceil_div(self.rows, down) * (self.kept + self.beside) + SCRATCH + self.results
