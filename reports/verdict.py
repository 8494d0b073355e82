"""What `compare` found, as sections of a page and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from reports import compare
from reports.changes import Change
from reports.columns import OURS
from reports.compare import UNCHANGED, Verdict, regressions
from reports.page import Page, Section
from reports.plots import delta
from reports.rows import Run
from reports.table import Table, amount
from reports.tables import environment

RULE = (
    "Slower: the median grew by more than 3 % and three times the noise (half of p20 to p80, of "
    "the run in which it is wider), and two of three trials agree. Wrong: the error against fp64 "
    "more than doubled and is beyond eager's. First calls, where several were measured: 10 % "
    "instead of 3 %."
)


def page(
    old: Run, new: Run, verdicts: Sequence[Verdict], changes: Sequence[Change], made: str
) -> Page:
    """The verdict on `new`, its regressions first; the head tells of both runs."""
    return Page(
        title=f"{new.name} against {old.name}",
        measured=tuple(dict.fromkeys([*environment.commands(old), *environment.commands(new)])),
        made=made,
        facts=environment.facts_of_both(old, new),
        warnings=environment.warnings_of((old, new)),
        sections=sections(verdicts, changes),
    )


def sections(verdicts: Sequence[Verdict], changes: Sequence[Change]) -> tuple[Section, ...]:
    """Regressions, other changes, the changes of all rows of ours."""
    found = regressions(verdicts)
    others = [v for v in verdicts if v.kind not in UNCHANGED and v not in found]
    timed = [v for v in verdicts if v.executor == OURS and not math.isnan(v.change)]
    tables = [replace(_table(found, "regressions of ours"), stays_open=True)] if found else []
    tables += (
        [_table(others, "other changes; faster rows ask for a new baseline")] if others else []
    )
    timed.sort(key=lambda v: -v.change)
    every = (_table(timed, "all rows of ours"),) if timed else ()
    also = (_changes(changes),) if changes else ()
    return (
        Section("verdict", "Verdict", _summary(verdicts), tuple(tables)),
        Section("changes", "Every change of ours", (RULE,), every, partial(delta.figures, timed)),
        *([Section("also", "Also changed", ("None of these is judged.",), also)] if also else []),
    )


def as_json(old: Run, new: Run, verdicts: Sequence[Verdict], changes: Sequence[Change]) -> str:
    """For programs; a number that is not known is null."""
    found = regressions(verdicts)
    value = {
        "is_regression": bool(found),
        "device": new.device,
        "old": dict(environment.facts(old)),
        "new": dict(environment.facts(new)),
        "rule": {
            "least_change": compare.LEAST_CHANGE,
            "least_change_of_first_calls": compare.LEAST_FIRST_CALL,
            "noise_factor": compare.NOISE_FACTOR,
            "agreeing_trials": compare.AGREEING_TRIALS,
            "error_factor": compare.ERROR_FACTOR,
        },
        "regressions": [_object(v) for v in found],
        "verdicts": [_object(v) for v in verdicts],
        "also_changed": [asdict(change) for change in changes],
    }
    return json.dumps(value, indent=2, allow_nan=False)


def _summary(verdicts: Sequence[Verdict]) -> tuple[str, ...]:
    ours = [v for v in verdicts if v.executor == OURS]
    compared = [v for v in ours if not math.isnan(v.change)]
    lines = [f"{len(compared)} rows of ours compared, {len(regressions(verdicts))} regressed."]
    unknown = sum(math.isnan(v.noise) for v in compared)
    if unknown:
        lines.append(f"Of {unknown} rows the noise is not known: they were judged by 3 % alone.")
    throttled = sum(bool(v.throttled) for v in ours)
    if throttled:
        lines.append(
            f"{throttled} rows of ours were measured while the GPU was throttled: they are marked; "
            "measure them again."
        )
    peers = [v.change for v in verdicts if v.executor != OURS and not math.isnan(v.change)]
    if peers:
        lines.append(f"The peers' median change is {np.median(peers):+.1%} in {len(peers)} rows.")
    return tuple(lines)


def _table(verdicts: Sequence[Verdict], caption: str) -> Table:
    """Who is named only where not all are ours: a phone shows the first columns."""
    has_peers = any(v.executor != OURS for v in verdicts)
    rows = tuple(
        (
            *(v.label, v.phase, *([v.executor] if has_peers else [])),
            *(_percent(v.change, "+"), v.kind, amount(v.old_us), amount(v.new_us)),
            *(_percent(v.noise, ""), _percent(v.bound, ""), v.clock.removesuffix("_us")),
            *(v.throttled or "-", v.detail or "-"),
        )
        for v in verdicts
    )
    names = ("workload", "pass", *(["executor"] if has_peers else []))
    figures = ("change", "verdict", "old us", "new us", "noise", "bound", "clock")
    head = (*names, *figures, "throttled", "detail")
    return Table(head, rows, caption, labels=len(names))


def _changes(changes: Sequence[Change]) -> Table:
    rows = tuple(
        (one.label, one.phase, one.column, amount(one.old), amount(one.new)) for one in changes
    )
    return Table(("workload", "pass", "column", "old", "new"), rows, labels=3)


def _object(verdict: Verdict) -> dict[str, Any]:
    value = asdict(verdict) | {"change": verdict.change, "bound": verdict.bound}
    return {
        name: None if isinstance(one, float) and not math.isfinite(one) else one
        for name, one in value.items()
    }


def _percent(value: float, sign: str) -> str:
    return "-" if math.isnan(value) else f"{value:{sign}.1%}"
