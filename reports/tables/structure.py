"""What a program was cut into, and what that makes it move."""

from __future__ import annotations

from reports.columns import OURS
from reports.rows import Run
from reports.table import Column, Table, amount, down, number

MB, KIB = 1e-6, 1 / 1024


def tables(run: Run) -> tuple[Table, ...]:
    """A row per pass of ours: the counts do not depend on the device, the registers do."""
    ours = run.frame[(run.frame["executor"] == OURS) & (run.frame["status"] == "ok")]
    needs = ["n_regions", "n_segments", "io_bytes_moved", "regs_max"]
    found = down(ours, _COLUMNS, needs)
    return () if found is None else (found,)


_COLUMNS: tuple[Column, ...] = (
    ("regions", number("n_regions", ".0f")),
    ("segments", number("n_segments", ".0f")),
    ("kernels", number("n_kernels", ".0f")),
    ("unclaimed ops", number("n_unclaimed_ops", ".0f")),
    ("least MB", lambda row: amount(row["io_bytes_min"] * MB)),
    ("moved MB", lambda row: amount(row["io_bytes_moved"] * MB)),
    ("least / moved", number("part_of_moved", ".0%")),
    ("MB at cuts", lambda row: amount(row["bytes_at_cuts"] * MB)),
    ("registers", number("regs_max", ".0f")),
    ("spilled bytes", number("spill_bytes", ".0f")),
    ("shared KiB", number("smem_bytes", ".1f", KIB)),
)
