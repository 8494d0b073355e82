"""A run against an earlier one on the same device.

A row is slower if its median grew by more than the bound, which is 3 % or three times the noise,
whichever is more, and if at least two of its trials say so. Noise is half of the range from p20 to
p80, of the run in which it is wider. A row that got faster by the bound asks for a new baseline.
Rows that were measured while the GPU was throttled are judged like all others, and marked.

First calls, cold and warm, are judged where both runs have several of each: these are the trials,
and the bound is 10 % at least. The row is judged by the one that changed by more.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from reports.columns import FAILED, FIRST_CALLS, KEY, OURS, nearest
from reports.rows import BadRows, Run, judged, pass_of

LEAST_CHANGE = 0.03
LEAST_FIRST_CALL = 0.1  # of what a process does once, on a host that does other things too
NOISE_FACTOR = 3
AGREEING_TRIALS = 2  # of three; of fewer, all
ERROR_FACTOR = 2  # an error may vary by that much: kernels may add in another order
ERROR_FLOOR = 1e-6  # relative; below it even fp32 results are as good as they can be
REGRESSIONS = ("slower", "wrong", "failed", "missing")
UNCHANGED = ("same", "skipped")


@dataclass(frozen=True)
class Verdict:
    """What became of a row: same, slower, faster, wrong (its error grew), failed (it was ok),
    failing (it was not ok before either), fixed, missing, new or skipped (in both runs).

    Times are those of `clock`, in us; noise, and what is computed from it, is relative; NaN where a
    run has none. `throttled` says in which of the runs."""

    suite: str
    label: str
    phase: str
    executor: str
    kind: str = "same"
    detail: str = ""
    clock: str = ""
    old_us: float = float("nan")
    new_us: float = float("nan")
    noise: float = float("nan")
    throttled: str = ""

    @property
    def change(self) -> float:
        return self.new_us / self.old_us - 1

    @property
    def least(self) -> float:
        """The change that counts where there is no noise."""
        return LEAST_FIRST_CALL if self.clock in FIRST_CALLS else LEAST_CHANGE

    @property
    def bound(self) -> float:
        """The change that counts. Without quantiles nothing is known of the noise."""
        return float(np.nanmax((self.least, NOISE_FACTOR * self.noise)))

    @property
    def is_regression(self) -> bool:
        return self.kind in REGRESSIONS


def compare(old: Run, new: Run) -> tuple[Verdict, ...]:
    """A verdict per row of either run, in the order of the rows. Raises BadRows for runs on
    different devices and for runs without a row in common."""
    if old.device != new.device:
        places = [f"{run.device} ({run.name})" for run in (old, new)]
        raise BadRows(f"rows of {places[0]} and of {places[1]} are not comparable")
    before, after = by_key(old.frame), by_key(new.frame)
    if before.keys().isdisjoint(after):
        raise BadRows(_nothing_in_common(old, new))
    names = sorted({str(row["workload"]) for key, row in after.items() if key not in before})
    return tuple(
        _verdict(before.get(key), after.get(key), new.is_gpu, names) for key in {**before, **after}
    )


def by_key(frame: pd.DataFrame) -> dict[tuple[str, ...], pd.Series]:
    """Rows by what identifies them in every run."""
    keys = zip(*(frame[column] for column in KEY), strict=True)
    return dict(zip(keys, (row for _, row in frame.iterrows()), strict=True))


def regressions(verdicts: Sequence[Verdict], executor: str = OURS) -> tuple[Verdict, ...]:
    """Those of one executor: what became of a peer is not a fault of ours."""
    return tuple(v for v in verdicts if v.executor == executor and v.is_regression)


def _nothing_in_common(old: Run, new: Run) -> str:
    names = f"{old.name} and {new.name} have no row in common"
    for column in KEY:
        before, after = (list(dict.fromkeys(run.frame[column])) for run in (old, new))
        if set(before).isdisjoint(after):
            return f"{names}: {column} is {before[0]!r} in one and {after[0]!r} in the other"
    return f"{names}: are the sizes the same?"


def _verdict(
    old: pd.Series | None, new: pd.Series | None, is_gpu: bool, new_names: Sequence[str]
) -> Verdict:
    row = old if new is None else new
    assert row is not None
    blank = Verdict(
        *pass_of(row),
        executor=str(row["executor"]),
        clock=judged(str(row["suite"]), is_gpu),
        throttled=_throttled(old, new),
    )
    if new is None:
        near = nearest(str(row["workload"]), new_names)
        hint = f"; {near} is new there" if near else ""
        return replace(blank, kind="missing", detail=f"the new run does not have it{hint}")
    if old is None or new["status"] != "ok" or old["status"] != "ok":
        return _of_statuses(blank, old, new)
    return _of_figures(blank, old, new)


def _throttled(old: pd.Series | None, new: pd.Series | None) -> str:
    runs = (("old", old), ("new", new))
    return " and ".join(name for name, one in runs if one is not None and one["throttled"] is True)


def _of_statuses(blank: Verdict, old: pd.Series | None, new: pd.Series) -> Verdict:
    """The rows of which at least one is absent, skipped or failed."""
    before = "absent" if old is None else str(old["status"])
    now, detail = str(new["status"]), str(new["error_msg"] or "no reason was recorded")
    if now == "skipped":
        kind = "missing" if before == "ok" else "skipped"
        return replace(blank, kind=kind, detail=f"skipped: {detail}")
    if now in FAILED:
        return replace(blank, kind="failed" if before == "ok" else "failing", detail=detail)
    return replace(blank, kind="fixed" if before in FAILED else "new")


def _of_figures(blank: Verdict, old: pd.Series, new: pd.Series) -> Verdict:
    """Two rows that are ok."""
    clocks = [clock for clock in FIRST_CALLS if is_sampled(old, new, clock)] or [blank.clock]
    found = [_of_clock(replace(blank, clock=clock), old, new) for clock in clocks]
    worst = max(found, key=lambda v: (v.is_regression, v.kind != "same", abs(v.change)))
    wrong = _wrong(old, new)
    return worst if wrong is None else replace(worst, kind="wrong", detail=wrong)


def is_sampled(old: pd.Series, new: pd.Series, column: str) -> bool:
    """Whether the column is of first calls, several in either run: then it is judged."""
    several = FIRST_CALLS.get(column)
    return several is not None and all(row[several] and len(row[several]) > 1 for row in (old, new))


def _of_clock(blank: Verdict, old: pd.Series, new: pd.Series) -> Verdict:
    before, after = (_timed(row, blank.clock) for row in (old, new))
    noise = float(np.fmax(before.noise, after.noise))
    found = replace(blank, old_us=before.median, new_us=after.median, noise=noise)
    if pd.isna(found.new_us) and not pd.isna(found.old_us):
        return replace(found, kind="missing", detail=f"its {found.clock} was not measured")
    trials = [trial / found.old_us - 1 for trial in after.trials or (found.new_us,)]
    for kind, sign in (("slower", 1), ("faster", -1)):
        agreeing = sum(sign * trial > found.bound for trial in trials)
        if sign * found.change > found.bound and agreeing >= min(AGREEING_TRIALS, len(trials)):
            return replace(found, kind=kind)
    return found


@dataclass(frozen=True)
class _Timed:
    """A row by one clock: us, but for the noise, half of the range from p20 to p80 as a part of the
    median."""

    median: float
    noise: float
    trials: Sequence[float]


def _timed(row: pd.Series, clock: str) -> _Timed:
    if clock in FIRST_CALLS:
        samples = [second * 1e6 for second in row[FIRST_CALLS[clock]]]
        low, middle, high = np.quantile(samples, (0.2, 0.5, 0.8))
        return _Timed(float(middle), float((high - low) / 2 / middle), samples)
    noise = (row[f"{clock}_p80"] - row[f"{clock}_p20"]) / 2 / row[f"{clock}_p50"]
    return _Timed(row["time_us"], float(noise), row["trial_us"] or ())


def _wrong(old: pd.Series, new: pd.Series) -> str | None:
    """What is wrong with the new results. A row may trade its lower error for eager's."""
    before, now = old["err_vs_fp64"], new["err_vs_fp64"]
    if pd.isna(now):
        return None if pd.isna(before) else f"error {before:.1e} became one that is not known"
    eager = new["err_eager_vs_fp64"]
    bounds = [ERROR_FLOOR, eager, ERROR_FACTOR * min(before, 1.0)]
    if pd.isna(before):
        bounds = [ERROR_FLOOR, ERROR_FACTOR * eager]
    if now <= np.nanmax(bounds):
        return None
    return f"error {before:.1e} became {now:.1e}" if pd.notna(before) else f"error {now:.1e}"
