"""Choose what to measure by name. Wrong names get the nearest."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

import torch

from benchmarks.cases import Sizes, Workload, sizes_text
from benchmarks.executors import Absent, Compile, Executor
from benchmarks.jobs import Suite

# On the host target these compile C++ or trace for minutes, and what they measure there is a CPU's.
SLOW_ON_HOST = ("inductor", "torchcompile_cat")


def select(
    known: Sequence[Suite], suites: str | None, works: str | None, sizes: Mapping[str, str | None]
) -> tuple[Suite, ...]:
    """The suites named, and of them the workloads named, both separated by commas; all without
    names. `sizes` gives a size each of several values instead: in the workloads that come in
    several of it, and where none does, in all that have it.

    Raises ValueError for unknown names, for what should be numbers, and for a size that no workload
    named has.
    """
    by_name = {suite.name: suite for suite in known}
    found = [by_name[name] for name in chosen("suite", suites, by_name)]
    if works is not None:
        wanted = chosen("workload", works, [w.name for suite in found for w in suite.workloads])
        found = [
            replace(suite, workloads=[w for w in suite.workloads if w.name in wanted])
            for suite in found
        ]
    given = {name: _numbers(name, text) for name, text in sizes.items() if text is not None}
    every = [workload for suite in found for workload in suite.workloads]
    for name, values in given.items():
        having = _having(name, every)
        if not having:
            raise ValueError(f"{name} {sizes[name]!r}: no workload that was chosen has that size")
        found = [
            replace(
                suite,
                workloads=[
                    _resized(w, name, values) if w in having else w for w in suite.workloads
                ],
            )
            for suite in found
        ]
    return tuple(suite for suite in found if suite.workloads)


def _having(name: str, workloads: Sequence[Workload]) -> Sequence[Workload]:
    """Those that come in several of a size; where none does, all that have it."""
    values = [(w, {sizes[name] for sizes in w.sizes if name in sizes}) for w in workloads]
    return [w for w, found in values if len(found) > 1] or [w for w, found in values if found]


def executors_for(
    names: str | None, known: Sequence[Executor], device: torch.device
) -> list[Executor]:
    """The executors named. Without names all; on the host target those that take minutes are then
    marked as absent. Raises ValueError for unknown names."""
    by_name = {executor.name: executor for executor in known}
    found = [by_name[name] for name in chosen("executor", names, by_name)]
    if names is not None or device.type == "cuda":
        return found
    return [replace(e, load=_left_out(e.name)) if e.name in SLOW_ON_HOST else e for e in found]


def _left_out(name: str) -> Callable[[torch.device], Compile]:
    def load(device: torch.device) -> Compile:
        raise Absent(f"takes minutes on a CPU and tells nothing of a GPU; --exec {name} runs it")

    return load


def table(suites: Sequence[Suite], is_quick: bool) -> str:
    """What there is to measure, a line per workload and size."""
    lines = []
    for suite in suites:
        lines.append(f"{suite.name}: {suite.summary}")
        lines += [
            f"  {workload.name:24} {sizes_text(sizes)}"
            for workload in suite.workloads
            for sizes in workload.chosen(is_quick)
        ]
    return "\n".join(lines)


def chosen(kind: str, names: str | None, known: Iterable[str]) -> list[str]:
    """The names that a text lists, all without a text. Raises ValueError, with the nearest, for an
    unknown one."""
    all_names = list(dict.fromkeys(known))
    if names is None:
        return all_names
    wanted = [name.strip() for name in names.split(",")]
    for name in wanted:
        if name not in all_names:
            _unknown(kind, name, all_names)
    return wanted


def _unknown(kind: str, name: str, known: Sequence[str]) -> NoReturn:
    near = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
    raise ValueError(f"no {kind} {name!r}: {hint}")


def _numbers(name: str, text: str) -> list[int]:
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = []
    if not found or min(found) < 1:
        raise ValueError(f"{name} {text!r}: give whole numbers from 1, such as 2,8")
    return found


def _resized(workload: Workload, name: str, values: Sequence[int]) -> Workload:
    sizes, quick = (_with(name, values, found) for found in (workload.sizes, workload.quick))
    return replace(workload, sizes=sizes, quick=quick)


def _with(name: str, values: Sequence[int], several: tuple[Sizes, ...]) -> tuple[Sizes, ...]:
    """The sizes with every value for `name`, once each."""
    if not all(name in sizes for sizes in several):
        return several
    found = {sizes_text(new): new for s in several for v in values for new in [{**s, name: v}]}
    return tuple(found.values())
