"""Steps of whole models."""

from __future__ import annotations

from reports.rows import Run
from reports.table import Table, amount, down, number

MS, GIB = 1e-3, 1 / 1024


def tables(run: Run) -> tuple[Table, ...]:
    """A row per model, pass and executor; failed ones are among the failures."""
    frame = run.frame[(run.frame["suite"] == "models") & (run.frame["status"] == "ok")]
    columns = (
        ("step ms", number("wall_us_p50", ".2f", MS)),
        ("kernels ms", number("kernel_us_p50", ".2f", MS)),
        ("kernels", number("n_kernels", ".0f")),
        ("host ms", number("host_us_p50", ".2f", MS)),
        ("idle ms", number("idle_us", ".2f", MS)),
        ("peak GiB", number("peak_alloc_mib", ".2f", GIB)),
        ("tokens/s", number("tokens_per_s", ",.0f")),
        ("first step s", lambda row: amount(row["first_call_s"])),
    )
    found = down(frame, columns, ["wall_us_p50"])
    return () if found is None else (found,)
