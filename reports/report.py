"""The report of one run: a section per question, those left out for which it has no rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from reports.page import Page, Section
from reports.plots import compiling as compiling_plots
from reports.plots import memory as memory_plots
from reports.plots import roof, steps, sweep
from reports.plots import roofline as roofline_plots
from reports.plots import speed as speed_plots
from reports.plots import structure as structure_plots
from reports.plots.figure import Figure
from reports.rows import Run
from reports.table import Table
from reports.tables import (
    compiling,
    environment,
    host,
    kernels,
    memory,
    models,
    numerics,
    outcome,
    roofline,
    speed,
    structure,
    sweeps,
)


@dataclass(frozen=True)
class Question:
    """What a section answers; `on_host` are title and text where rows are of the host target."""

    name: str
    title: str
    text: str
    tables: Callable[[Run], tuple[Table, ...]]
    figures: Callable[[Run], tuple[Figure, ...]] = lambda run: ()
    on_host: tuple[str, str] | None = None


QUESTIONS = (
    Question(
        "peers",
        "Times faster than each peer",
        "Geometric means over the passes that both ran, by the clock that a suite is judged by: "
        "kernels, the whole step of a model, the host in the host suite.",
        speed.tables,
        speed_plots.figures,
    ),
    Question(
        "kernels",
        "Kernels",
        "A cell is us · minimal bytes as a part of the device copy · kernels. The fastest is bold.",
        kernels.tables,
        roof.figures,
        ("Wall time, us", "Medians of whole calls."),
    ),
    Question(
        "roofline",
        "Far from the roof: is it size?",
        "A pass at the dashed line moves its minimal bytes as fast as the device copy of this run; "
        f"at the dotted one that and {roofline.LAUNCH_US} us, which every kernel takes.",
        roofline.tables,
        roofline_plots.figures,
    ),
    Question(
        "sweeps",
        "Over sequence lengths",
        "Cells are those of the kernels above.",
        sweeps.tables,
        sweep.figures,
    ),
    Question(
        "models",
        "Models",
        "A step is forward, loss and backward. Idle is what is left of it without a kernel.",
        models.tables,
        steps.figures,
    ),
    Question("host", "Host time of a call, us", "", host.tables),
    Question(
        "first-calls",
        "First calls, s",
        "Compilation is in them.",
        compiling.tables,
        compiling_plots.figures,
    ),
    Question("memory", "Memory", "", memory.tables, memory_plots.figures),
    Question("numerics", "Errors", "Norm of the difference over the norm.", numerics.tables),
    Question(
        "structure",
        "Regions, segments and bytes of ours",
        "Least bytes: inputs and outputs once. Moved: summed over the segments.",
        structure.tables,
        structure_plots.figures,
    ),
    Question("workloads", "Workloads", "", kernels.workloads),
    Question("outcome", "Failed, skipped, throttled", "", outcome.tables),
)


def page(run: Run, made: str, first: tuple[Section, ...] = ()) -> Page:
    """`made` is the command that makes the page; sections of a verdict come `first`."""
    sections = tuple(section for one in QUESTIONS if (section := _section(one, run)))
    return Page(
        title=f"thunder_fuser on {run.device}",
        measured=environment.commands(run),
        made=made,
        facts=environment.facts(run),
        warnings=environment.warnings(run),
        sections=(*first, *sections),
    )


def _section(question: Question, run: Run) -> Section | None:
    tables = question.tables(run)
    if not tables:
        return None
    title, text = question.title, question.text
    if question.on_host is not None and not run.is_gpu:
        title, text = question.on_host
    return Section(
        question.name, title, (text,) if text else (), tables, partial(question.figures, run)
    )
