"""The pipeline on one page: from a fusion and a class of arguments to a launch plan.

fusion -> bind -> tidy -> cut -> schedule -> lower -> emit -> compile -> plan
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from thunder_fuser import log
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.codegen.emit import AnyKernel, emit
from thunder_fuser.codegen.source import Source
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.columns import lower_columns
from thunder_fuser.kernel.lower import lower
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.options import Options
from thunder_fuser.options import difference as options_difference
from thunder_fuser.passes import Watch
from thunder_fuser.presegment import tidy
from thunder_fuser.presegment.split_reductions import split_reductions
from thunder_fuser.runtime.argument_class import Key, difference, key_function
from thunder_fuser.runtime.bind import bind
from thunder_fuser.runtime.errors import CheckError, LaunchError
from thunder_fuser.runtime.failures import Failures, naming_region, run_failure
from thunder_fuser.runtime.instrument import instrument
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.observers import observers
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.runtime.plan import Plan, build_plan
from thunder_fuser.runtime.profile import Profile, run_profiled
from thunder_fuser.runtime.targets import target_for
from thunder_fuser.runtime.title import places
from thunder_fuser.runtime.toolchain import TOOLCHAINS
from thunder_fuser.schedule import columns, map, rows
from thunder_fuser.schedule.parameters import parameters_for
from thunder_fuser.segment.cut import cut
from thunder_fuser.segment.segment import Segment
from thunder_fuser.segment.segmented import SegmentedFusion
from thunder_fuser.target import Target

Argument: TypeAlias = "torch.Tensor | sc.Number"

MAX_PLANS = 256  # argument classes remembered per fusion


class Program:
    """A fusion and the plans of the argument classes it has met, least recently used dropped.

    `origin` is who asks, for messages; regions that are equal share a program. `recompiles` says of
    each plan after the first which part of the arguments made it necessary.
    """

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self.recompiles: deque[str] = deque(maxlen=MAX_PLANS)
        self._key = key_function(fusion)
        self._plans: OrderedDict[Key, Plan] = OrderedDict()
        self._last: tuple[Key | None, Plan | None] = (None, None)

    def run(
        self,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None = None,
        origin: Origin | None = None,
    ) -> list[torch.Tensor]:
        """The outputs for `arguments` in the order of the fusion's inputs.

        Raises what `make_plan` raises, and LaunchError and CheckError that name the segment.
        """
        key = (options, *self._key(*arguments))
        last, plan = self._last
        if last != key or plan is None:
            plan = self._find(key, arguments, options, device, origin)
        try:
            return plan.run(*arguments)
        except (LaunchError, CheckError) as error:
            raise run_failure(error, plan, origin or Origin(), arguments, options) from error

    def plan(
        self,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None = None,
        origin: Origin | None = None,
    ) -> Plan:
        """The plan that `run` uses for these arguments."""
        return self._find((options, *self._key(*arguments)), arguments, options, device, origin)

    def profile(
        self,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None = None,
        origin: Origin | None = None,
    ) -> tuple[list[torch.Tensor], Profile]:
        """`run`, and how long each segment took."""
        origin = origin or Origin()
        plan = self.plan(arguments, options, device, origin)
        return run_profiled(plan, origin.name, arguments)

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans made so far, least recently used first."""
        return tuple(self._plans.values())

    def _find(
        self,
        key: Key,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None,
        origin: Origin | None,
    ) -> Plan:
        plan = self._plans.get(key)
        if plan is None:
            plan = make_plan(self.fusion, arguments, options, device, origin)
            self._note_recompile(key, origin)
        self._plans[key] = plan
        self._plans.move_to_end(key)
        while len(self._plans) > MAX_PLANS:
            self._plans.popitem(last=False)
        self._last = (key, plan)
        return plan

    def _note_recompile(self, key: Key, origin: Origin | None) -> None:
        """Say what differs from the plan before."""
        last, _ = self._last
        if last is None:
            return
        before, now = last[0], key[0]
        assert isinstance(before, Options)
        assert isinstance(now, Options)
        if before == now:
            reason = difference(self.fusion, last[1:], key[1:])
        else:
            reason = options_difference(before, now)
        self.recompiles.append(reason)
        name = origin.name if origin is not None else "fusion"
        log.event("recompile", "%s: plan %s: %s", name, len(self._plans) + 1, reason)


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
        tidied = watch("tidied", split_reductions(tidied, target.multiprocessors))
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
        reasons = [map.reject(segment, parameters), rows.reject(segment), columns.reject(segment)]
        return None if None in reasons else "; ".join(filter(None, reasons))

    return cut(fusion, layouts, refuse, copies)


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
    if rows.reject(segment) is None:
        return lower_rows(watch("schedule", rows.schedule(segment)), strict)
    return lower_columns(watch("schedule", columns.schedule(segment)), strict)
