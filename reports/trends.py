"""What `history` found, as a page and as JSON."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial

from reports.columns import FAILED, OURS
from reports.history import History, Mean, Trend
from reports.page import Page, Section
from reports.plots import trend
from reports.table import Best, Table, amount, text
from reports.tables import environment

WORTH = 0.03  # a change from the first run to the last that stands out


def page(found: History, made: str) -> Page:
    """The runs, means over them, and the times of each pass."""
    commands = [command for run in found.runs for command in environment.commands(run)]
    device = found.runs[-1].device
    means = tuple(_means(found, suite) for suite in _suites(found.means))
    trends = tuple(_trends(found, suite) for suite in _suites(found.trends))
    how = (
        "Times faster than each peer in the geometric mean, and of how many passes. Runs have "
        "passes in common only where their workloads did not change.",
    )
    return Page(
        title=f"{len(found.runs)} runs on {device}",
        measured=tuple(dict.fromkeys(commands)),
        made=made,
        facts=(("device", device), ("runs", ", ".join(run.name for run in found.runs))),
        warnings=environment.warnings_of(found.runs),
        sections=(
            Section("runs", "Runs", (), (_runs(found),)),
            *(
                [Section("means", "Means", how, means, partial(trend.means, found))]
                if means
                else []
            ),
            Section(
                "passes",
                "Passes of ours",
                ("us; the change is that from the first time to the last.",),
                trends,
                partial(trend.passes, found),
            ),
        ),
    )


def as_json(found: History) -> str:
    """For programs; a number that is not known is null."""
    runs = zip(found.names, found.runs, strict=True)
    value = {
        "device": found.runs[-1].device,
        "runs": [{"name": name} | dict(environment.facts(run)) for name, run in runs],
        "means": [asdict(one) | {"values": _known(one.values)} for one in found.means],
        "trends": [
            asdict(one) | {"times": _known(one.times), "change": _known([one.change])[0]}
            for one in found.trends
        ],
    }
    return json.dumps(value, indent=2, allow_nan=False)


def _suites(rows: Sequence[Mean] | Sequence[Trend]) -> list[str]:
    return list(dict.fromkeys(row.suite for row in rows))


def _runs(found: History) -> Table:
    rows = []
    for name, run in zip(found.names, found.runs, strict=True):
        ours = run.frame[run.frame["executor"] == OURS]
        facts = dict(environment.facts(run))
        known = (facts.get(column, "-") for column in ("measured", "commit", "torch"))
        failed = int(ours["status"].isin(FAILED).sum())
        throttled = int(ours["throttled"].eq(True).sum())
        copy = text(run.copy_gbps, ",.0f")
        rows.append((name, *known, copy, str(len(ours)), str(failed), str(throttled)))
    head = (
        "run",
        "measured",
        "commit",
        "torch",
        "copy GB/s",
        "rows of ours",
        "failed",
        "throttled",
    )
    return Table(head, tuple(rows), labels=4)


def _means(found: History, suite: str) -> Table:
    chosen = [mean for mean in found.means if mean.suite == suite]
    rows = [
        (name, *(f"{text(mean.values[k], '.2f')} · {mean.passes[k]}" for mean in chosen))
        for k, name in enumerate(found.names)
    ]
    return Table(("run", *(mean.peer for mean in chosen)), tuple(rows), suite, labels=1)


def _trends(found: History, suite: str) -> Table:
    chosen = [one for one in found.trends if one.suite == suite]
    rows = [
        (one.label, one.phase, *(_cell(one, k) for k in range(len(found.runs))), _change(one))
        for one in chosen
    ]
    return Table(("workload", "pass", *found.names, "change"), tuple(rows), suite)


def _cell(one: Trend, k: int) -> str:
    return amount(one.times[k]) if one.statuses[k] in ("ok", "-") else one.statuses[k]


def _change(one: Trend) -> str:
    written = text(one.change, "+.1%")
    return Best(written) if abs(one.change) > WORTH else written


def _known(values: Sequence[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]
