"""How many times faster than each peer, in the geometric mean, and of how many passes that is."""

from __future__ import annotations

import numpy as np
import pandas as pd

from reports.columns import FAILED, OURS
from reports.rows import Run
from reports.table import Table, text

_PASS = ["label", "phase"]


def tables(run: Run) -> tuple[Table, ...]:
    """Means say of how many passes they are, and how many are missing and why. None on the host
    target, whose times compare nothing."""
    if not run.is_gpu or OURS not in set(run.frame["executor"]):
        return ()
    suites = [suite for suite in dict.fromkeys(run.frame["suite"]) if suite != "compile"]
    phases = list(dict.fromkeys(run.frame["phase"]))
    peers = [name for name in dict.fromkeys(run.frame["executor"]) if name != OURS]
    rows = [_line(run.frame, suite, peer, phases) for suite in suites for peer in peers]
    head = ("suite", "peer", "times faster", "passes", *phases, "slower")
    counts = ("peer failed", "ours failed", "peer skipped", "worst", "worst at")
    return (Table((*head, *counts), tuple(filter(None, rows))),)


def speedup(frame: pd.DataFrame, suite: str, peer: str) -> pd.Series:
    """How many times faster ours is than `peer`, by label and phase; passes that either lacks are
    left out."""
    good = frame[(frame["suite"] == suite) & (frame["status"] == "ok")]
    times = {
        name: good[good["executor"] == name].set_index(_PASS)["time_us"] for name in (OURS, peer)
    }
    return (times[peer] / times[OURS]).dropna()


def geometric_mean(values: pd.Series) -> float:
    """NaN for no values."""
    return float(np.exp(np.log(values).mean())) if len(values) else float("nan")


def _line(frame: pd.DataFrame, suite: str, peer: str, phases: list[str]) -> tuple[str, ...] | None:
    rows = frame[frame["suite"] == suite]
    theirs, ours = (rows[rows["executor"] == name]["status"] for name in (peer, OURS))
    if theirs.empty or ours.empty:
        return None
    ratios = speedup(frame, suite, peer)
    by_phase = [ratios[ratios.index.get_level_values("phase") == phase] for phase in phases]
    worst = ratios.idxmin() if len(ratios) else ("-", "")
    return (
        suite,
        peer,
        text(geometric_mean(ratios), ".2f"),
        str(len(ratios)),
        *(text(geometric_mean(found), ".2f") for found in by_phase),
        str(int((ratios < 1).sum())),
        str(int(theirs.isin(FAILED).sum())),
        str(int(ours.isin(FAILED).sum())),
        str(int((theirs == "skipped").sum())),
        text(ratios.min(), ".2f"),
        " ".join(worst).strip(),
    )
