"""Memory of a call."""

from __future__ import annotations

from reports.rows import Run
from reports.table import Table, across, number


def tables(run: Run) -> tuple[Table, ...]:
    """MiB at the peak, and kept for the backward."""
    kinds = (
        ("peak_alloc_mib", "peak of a call beyond its inputs, MiB"),
        ("saved_for_backward_mib", "saved for the backward, MiB"),
    )
    found = [
        across(run.frame, number(column, ",.0f"), column, caption, best=column)
        for column, caption in kinds
    ]
    return tuple(table for table in found if table is not None)
