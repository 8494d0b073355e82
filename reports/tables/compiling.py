"""First calls: cold, from a warm cache on disk, and where the time of ours went."""

from __future__ import annotations

from reports.columns import OURS
from reports.rows import Run
from reports.table import Column, Row, Table, across, amount, down, number

PARTS = ("trace_s", "fuse_s", "codegen_s", "nvrtc_s", "tune_s")


def tables(run: Run) -> tuple[Table, ...]:
    """Cold and warm where a process of its own measured them; else first calls as they came."""
    has_both = run.frame["first_call_s_cold"].notna()
    ours = run.frame[(run.frame["executor"] == OURS) & (run.frame["status"] == "ok")]
    found = (
        across(run.frame, _cold_and_warm, "first_call_s_cold", "cold · from a warm cache on disk"),
        across(
            run.frame[~has_both],
            lambda row: amount(row["first_call_s"]),
            "first_call_s",
            "in the process of the run, with what its caches on disk held",
        ),
        down(ours, _PHASES, [*PARTS, "n_compiled"], "where the first call of ours goes"),
    )
    return tuple(table for table in found if table is not None)


_PHASES: tuple[Column, ...] = (
    ("trace s", number("trace_s", ".3f")),
    ("fuse s", number("fuse_s", ".3f")),
    ("codegen s", number("codegen_s", ".3f")),
    ("NVRTC s", number("nvrtc_s", ".3f")),
    ("timing s", number("tune_s", ".3f")),
    ("compiled", number("n_compiled", ".0f")),
    ("from cache", number("n_cache_hit", ".0f")),
)


def _cold_and_warm(row: Row) -> str:
    return f"{amount(row['first_call_s_cold'])} · {amount(row['first_call_s_warm'])}"
