"""The pipeline on one page: from a fusion and a class of arguments to a launch plan.

fusion -> bind -> tidy -> cut -> schedule -> lower -> emit -> compile -> plan
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.reductions import is_few_and_long
from thunder_fuser.codegen.emit import AnyKernel, emit
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.columns import lower_columns
from thunder_fuser.kernel.lower import lower
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.kernel.source import Source
from thunder_fuser.kernel.streams import lower_streams
from thunder_fuser.options import Options
from thunder_fuser.passes import Watch
from thunder_fuser.presegment import arrange, tidy
from thunder_fuser.runtime.bind import bind
from thunder_fuser.runtime.failures import Failures, naming_region
from thunder_fuser.runtime.instrument import instrument
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.observers import observers
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.runtime.plan import Plan, build_plan
from thunder_fuser.runtime.targets import target_for
from thunder_fuser.runtime.title import places
from thunder_fuser.runtime.toolchain import TOOLCHAINS
from thunder_fuser.schedule import columns, map, rows, streams
from thunder_fuser.schedule.parameters import parameters_for
from thunder_fuser.segment.cut import cut
from thunder_fuser.segment.segment import Segment
from thunder_fuser.segment.segmented import SegmentedFusion
from thunder_fuser.target import Target

Argument: TypeAlias = "torch.Tensor | sc.Number"


def make_plan(
    fusion: Fusion,
    arguments: Sequence[Argument],
    options: Options,
    device: torch.device | None = None,
    origin: Origin | None = None,
) -> Plan:
    """Every stage after the definition, for one class of arguments.

    Raises ValueError for arguments that do not fit; GenerateError, CompileError, LaunchError and
    CaptureError that name region, segment and the user's line; torch.OutOfMemoryError as it is.
    """
    origin = origin or Origin()
    watch = observers(origin, arguments, options)
    bound = bind(watch("fusion", fusion), arguments, device)
    target = target_for(bound.device)
    with naming_region(origin, arguments, options):
        tidied = tidy(watch("bound", bound.fusion))
        arranged = arrange(tidied, bound.layouts, target.multiprocessors)
        tidied = watch("tidied", arranged)
        copies = options.alias == "copy"
        segmented = watch("segmented", cut_region(tidied, bound.layouts, target, copies))
    place = places(origin, bound.tensors, bound.fusion, segmented.fusion)
    failures = Failures(origin, arguments, options, segmented, place)
    sources = [
        failures.generate(k, partial(generate, segment, target, options, watch, k))
        for k, segment in enumerate(segmented.segments)
    ]
    load = partial(KERNELS.launchers, target=target, options=options, device=bound.device.index)
    launchers = failures.load(sources, load)
    plan = build_plan(segmented, sources, launchers, bound.arguments, bound.device, place)
    return instrument(watch("plan", plan), origin.name, options)


def cut_region(
    fusion: Fusion, layouts: Mapping[TensorView, Layout], target: Target, copies: bool = False
) -> SegmentedFusion:
    """The segments of a concrete fusion whose inputs lie as `layouts`. With `copies` every output
    has storage of its own."""
    parameters = parameters_for(target)

    def refuse(segment: Segment) -> str | None:
        reasons = [
            map.reject(segment, parameters),
            rows.reject(segment, target),
            columns.reject(segment, target),
        ]
        return None if None in reasons else "; ".join(filter(None, reasons))

    is_shared = partial(is_few_and_long, multiprocessors=target.multiprocessors)
    return cut(fusion, layouts, refuse, copies, is_shared)


def generate(
    segment: Segment, target: Target, options: Options, watch: Watch, position: int
) -> Source | None:
    """The kernel of a segment; None where torch runs it."""
    if segment.is_opaque or options.evaluator or not TOOLCHAINS[target.kind].is_available():
        return None
    kernel = build(segment, target, options.strict, partial(watch, segment=position))
    return watch("source", emit(watch("kernel", kernel, position)), position)


def build(segment: Segment, target: Target, strict: bool, watch: Callable[..., Any]) -> AnyKernel:
    """The kernel of the first template that holds the segment."""
    parameters = parameters_for(target)
    if map.reject(segment, parameters) is None:
        return lower(watch("schedule", map.schedule(segment, parameters)), strict)
    if not strict and streams.reject(segment, target) is None:
        return lower_streams(watch("schedule", streams.schedule(segment, target)))
    if rows.reject(segment, target) is None:
        return lower_rows(watch("schedule", rows.schedule(segment, target)), strict)
    return lower_columns(watch("schedule", columns.schedule(segment, target)), strict)
