"""The pipeline on one page: from a fusion and a class of arguments to a launch plan.

fusion -> bind -> tidy -> cut -> schedule -> lower -> emit -> compile -> plan
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import torch

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
from thunder_fuser.presegment import tidy
from thunder_fuser.presegment.split_reductions import split_reductions
from thunder_fuser.runtime.argument_class import Key, key_function
from thunder_fuser.runtime.bind import bind
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.plan import Plan, build_plan
from thunder_fuser.runtime.targets import target_for
from thunder_fuser.schedule import columns, map, rows
from thunder_fuser.schedule.parameters import parameters_for
from thunder_fuser.segment.cut import cut
from thunder_fuser.segment.segment import Segment
from thunder_fuser.segment.segmented import SegmentedFusion
from thunder_fuser.target import Target

Argument: TypeAlias = "torch.Tensor | sc.Number"
MAX_PLANS = 256  # argument classes remembered per fusion


class Program:
    """A fusion and the plans of the argument classes it has met, least recently used dropped."""

    def __init__(self, fusion: Fusion) -> None:
        self.fusion = fusion
        self._key = key_function(fusion)
        self._plans: OrderedDict[Key, Plan] = OrderedDict()
        self._last: tuple[Key | None, Plan | None] = (None, None)

    def run(
        self,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None = None,
    ) -> list[torch.Tensor]:
        """The outputs for `arguments` in the order of the fusion's inputs."""
        key = (options, *self._key(*arguments))
        last, plan = self._last
        if last != key or plan is None:
            plan = self._find(key, arguments, options, device)
        return plan.run(*arguments)

    def plan(
        self,
        arguments: Sequence[Argument],
        options: Options,
        device: torch.device | None = None,
    ) -> Plan:
        """The plan that `run` uses for these arguments."""
        return self._find((options, *self._key(*arguments)), arguments, options, device)

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
    ) -> Plan:
        plan = self._plans.get(key)
        if plan is None:
            plan = make_plan(self.fusion, arguments, options, device)
        self._plans[key] = plan
        self._plans.move_to_end(key)
        while len(self._plans) > MAX_PLANS:
            self._plans.popitem(last=False)
        self._last = (key, plan)
        return plan


def make_plan(
    fusion: Fusion,
    arguments: Sequence[Argument],
    options: Options,
    device: torch.device | None = None,
) -> Plan:
    """Every stage after the definition, for one class of arguments."""
    bound = bind(fusion, arguments, device)
    target = target_for(bound.device)
    copies = options.alias == "copy"
    tidied = split_reductions(tidy(bound.fusion), target.multiprocessors)
    segmented = cut_region(tidied, bound.layouts, target, copies)
    sources = [generate(s, target, options) for s in segmented.segments]
    kernels = [source for source in sources if source is not None]
    loaded = iter(KERNELS.launchers(kernels, target, options, bound.device.index))
    launchers = [None if source is None else next(loaded) for source in sources]
    return build_plan(segmented, sources, launchers, bound.arguments, bound.device)


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


def generate(segment: Segment, target: Target, options: Options) -> Source | None:
    """The kernel of a segment; None where torch runs it."""
    if segment.is_opaque or options.evaluator:
        return None
    return emit(build(segment, target, options.strict))


def build(segment: Segment, target: Target, strict: bool) -> AnyKernel:
    """The kernel of the first template that holds the segment."""
    parameters = parameters_for(target)
    if map.reject(segment, parameters) is None:
        return lower(map.schedule(segment, parameters), strict)
    if rows.reject(segment) is None:
        return lower_rows(rows.schedule(segment), strict)
    return lower_columns(columns.schedule(segment), strict)
