"""Put what the options ask for around the launches of a plan: checks, log lines, ranges."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from thunder_fuser import log
from thunder_fuser.ir.text import tensor_names
from thunder_fuser.options import Options
from thunder_fuser.runtime.check import Check
from thunder_fuser.runtime.events import telling
from thunder_fuser.runtime.plan import Plan, observed
from thunder_fuser.runtime.ranges import ranged, ranges_of
from thunder_fuser.runtime.title import titles


def instrument(plan: Plan, region: str, options: Options) -> Plan:
    """`plan` itself where nothing is asked for, else one that checks and tells as it runs."""
    tells = log.is_on("launch")
    ranges = ranges_of(options.ranges)
    if options.check == "off" and not tells and ranges is None:
        return plan
    segmented, named = plan.segmented, titles(region, plan.segmented)
    names = tensor_names(segmented.fusion)

    def around(position: int, work: Callable[..., Any]) -> Callable[..., Any]:
        segment, title = segmented.segments[position], named[position]
        if options.check != "off" and plan.kernels[position] is not None:
            check = Check(segment, names, plan.device)
            work = check.around(options.check, work)
        if tells:
            work = telling(title, plan.kernels[position], work)
        # Equal regions share a plan, so the range of a region is opened by who calls it.
        return work if ranges is None else ranged(ranges, f"segment {position}", work)

    return replace(plan, run=observed(plan, around))
