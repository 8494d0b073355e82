"""How far results are from fp64."""

from __future__ import annotations

import pandas as pd

from reports.rows import Run
from reports.table import Row, Table, across, number, text


def tables(run: Run) -> tuple[Table, ...]:
    """Errors against fp64; of a harness that has none, distances from eager."""
    found = (
        across(run.frame, _against_fp64, "err_vs_fp64", "against fp64 · as a multiple of eager's"),
        across(run.frame, number("err_vs_eager", ".1e"), "err_vs_eager", "distance from eager"),
    )
    return tuple(table for table in found if table is not None)


def _against_fp64(row: Row) -> str:
    ratio = row["error_ratio"]
    return f"{row['err_vs_fp64']:.1e}" + ("" if pd.isna(ratio) else f" · {text(ratio, '.2f')}")
