"""A run against an earlier one on the same device.

A row is slower if its median grew by more than the bound, which is 3 % or three times the noise,
whichever is more, and if at least two of its trials say so. Noise is half of the range from p20
to p80, of the run in which it is wider. A row that got faster by the bound asks for a new baseline.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from reports.rows import KEY, BadRows, clock, device, name
from reports.tables import OURS, markdown

LEAST_CHANGE = 0.03
NOISE_FACTOR = 3
AGREEING_TRIALS = 2
ERROR_FACTOR = 2  # an error may vary by that much: kernels may add in another order
ERROR_FLOOR = 1e-6  # relative; below it even fp32 results are as good as they can be
REGRESSIONS = ("slower", "wrong", "failed", "missing")


@dataclass(frozen=True)
class Verdict:
    """What became of a row: same, slower, faster, wrong (its error grew), failed, fixed, missing or
    new. `change` and `bound` are relative times, NaN where one of the runs has none."""

    row: str
    executor: str
    kind: str
    change: float = float("nan")
    bound: float = float("nan")
    detail: str = ""

    @property
    def is_regression(self) -> bool:
        return self.kind in REGRESSIONS


def compare(old: pd.DataFrame, new: pd.DataFrame) -> tuple[Verdict, ...]:
    """A verdict per row of either run, skipped ones left out, in the order of the rows. Raises
    BadRows for runs on different devices and for runs without a row in common."""
    if device(old) != device(new):
        raise BadRows(f"rows of {device(old)} and of {device(new)} are not comparable")
    time = clock(new)
    before, after = (frame[frame["status"] != "skipped"].set_index(KEY) for frame in (old, new))
    if before.index.intersection(after.index).empty:
        raise BadRows("the two runs have no row in common: are the sizes the same?")
    verdicts = []
    for key in before.index.union(after.index, sort=False):
        labels = pd.Series(dict(zip(KEY, key, strict=True)))
        one = before.loc[key] if key in before.index else None
        other = after.loc[key] if key in after.index else None
        verdicts.append(_verdict(labels, one, other, time))
    return tuple(verdicts)


def regressions(verdicts: Sequence[Verdict], executor: str = OURS) -> tuple[Verdict, ...]:
    """Those of one executor: what became of a peer is not a fault of ours."""
    return tuple(v for v in verdicts if v.executor == executor and v.is_regression)


def page(verdicts: Sequence[Verdict]) -> str:
    """Markdown: what changed, regressions of ours first, then how far the peers drifted."""
    found = regressions(verdicts)
    others = [v for v in verdicts if v.kind != "same" and v not in found]
    compared = [v for v in verdicts if v.executor == OURS and not np.isnan(v.change)]
    lines = [
        f"{len(compared)} rows of ours compared, {len(found)} regressed.",
        *([_table(found)] if found else []),
    ]
    if others:
        lines += ["Other changes; faster rows ask for a new baseline:", _table(others)]
    peers = [v.change for v in verdicts if v.executor != OURS and not np.isnan(v.change)]
    if peers:
        lines.append(f"The peers' median change is {np.median(peers):+.1%} in {len(peers)} rows.")
    return "\n\n".join(lines) + "\n"


def _verdict(labels: pd.Series, old: pd.Series | None, new: pd.Series | None, time: str) -> Verdict:
    row, executor = name(labels), str(labels["executor"])
    if old is None:
        return Verdict(row, executor, "new")
    if new is None:
        return Verdict(row, executor, "missing", detail="the new run does not have it")
    if new["status"] != "ok":
        was_ok = old["status"] == "ok"
        return Verdict(row, executor, "failed" if was_ok else "same", detail=str(new["error_msg"]))
    if old["status"] != "ok":
        return Verdict(row, executor, "fixed")
    change, bound = _change(old, new, time)
    kind, detail = "same", ""
    if _error(new) > _error_bound(old, new):
        kind, detail = "wrong", f"error {_error(old):.1e} became {_error(new):.1e}"
    elif change > bound and _agreeing(old, new, bound, time) >= AGREEING_TRIALS:
        kind = "slower"
    elif -change > bound:
        kind = "faster"
    return Verdict(row, executor, kind, change, bound, detail)


def _change(old: pd.Series, new: pd.Series, time: str) -> tuple[float, float]:
    """The relative change of the median, and how much of one is noise."""
    median = f"{time}_p50"
    noise = max((row[f"{time}_p80"] - row[f"{time}_p20"]) / 2 / row[median] for row in (old, new))
    return float(new[median] / old[median] - 1), max(LEAST_CHANGE, NOISE_FACTOR * noise)


def _agreeing(old: pd.Series, new: pd.Series, bound: float, time: str) -> int:
    """How many trials of the new run are past the bound by themselves."""
    return sum(trial / old[f"{time}_p50"] - 1 > bound for trial in new["trial_us"])


def _error(row: pd.Series) -> float:
    """Without a number there is no reason to believe the result."""
    return float("inf") if pd.isna(row["err_vs_fp64"]) else float(row["err_vs_fp64"])


def _error_bound(old: pd.Series, new: pd.Series) -> float:
    """Eager's error counts too: a row may trade its lower error for eager's."""
    eager = 0.0 if pd.isna(new["err_eager_vs_fp64"]) else float(new["err_eager_vs_fp64"])
    return max(ERROR_FLOOR, ERROR_FACTOR * min(_error(old), 1.0), eager)


def _table(verdicts: Sequence[Verdict]) -> str:
    lines = [
        [v.row, v.kind, _percent(v.change, "+"), _percent(v.bound, ""), v.detail] for v in verdicts
    ]
    return markdown(["row", "verdict", "change", "bound", ""], lines)


def _percent(value: float, sign: str) -> str:
    return "-" if np.isnan(value) else f"{value:{sign}.1%}"
