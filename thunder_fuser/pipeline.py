"""The pipeline on one page: from a fusion and a class of arguments to a launch plan.

fusion -> bind -> tidy -> cut -> schedule -> lower -> emit -> compile -> plan
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.shared_rows import shared_rows
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel import templates
from thunder_fuser.options import Options
from thunder_fuser.presegment import arrange, tidy
from thunder_fuser.presegment.meet_columns import meet_columns
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
from thunder_fuser.segment.cut import cut
from thunder_fuser.segment.segment import Segment
from thunder_fuser.segment.segmented import SegmentedFusion
from thunder_fuser.segment.stored_results import bytes_read, reading_results
from thunder_fuser.segment.turns import turned
from thunder_fuser.target import Target
from thunder_fuser.tuning import Candidate, Loader, Tuner

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
        arranged = arrange(tidied, bound.layouts, target, strict=options.strict)
        tidied = watch("tidied", arranged)
        copies = options.alias == "copy"
        cut_up = cut_region(tidied, bound.layouts, target, copies, strict=options.strict)
        segmented = watch("segmented", cut_up)
    place = places(origin, bound.tensors, bound.fusion, segmented.fusion)
    failures = Failures(origin, arguments, options, segmented, place)
    tuner = Tuner(target, options, bound.device)
    generated = [
        failures.generate(k, partial(generate, segment, tuner, partial(watch, segment=k)))
        for k, segment in enumerate(segmented.segments)
    ]
    sources = [None if found is None else found.source for found in generated]
    load = partial(KERNELS.launchers, target=target, options=options, device=bound.device.index)
    loader = Loader(tuner.rivals(segmented.segments, generated), load)
    launchers = failures.load(sources, loader.launchers)
    plan = build_plan(segmented, sources, launchers, bound.arguments, bound.device, place)
    for k, faster in tuner.race(plan, generated, loader.entrants(), arguments).items():
        source = tuner.candidate(faster.candidate.draft, partial(watch, segment=k)).source
        plan = plan.with_kernel(k, source, faster.launcher)
    templates.forget()
    return instrument(watch("plan", plan), origin.name, options)


def cut_region(
    fusion: Fusion,
    layouts: Mapping[TensorView, Layout],
    target: Target,
    copies: bool = False,
    *,
    strict: bool,
) -> SegmentedFusion:
    """The segments of a concrete fusion whose inputs lie as `layouts`. With `copies` every output
    has storage of its own. Columns meet where a template holds all that needs them. Unless `strict`
    what is stored in 16 bits is read where its exact value takes more."""
    refuse = partial(templates.reject, target=target)

    def segmented(arranged: Fusion) -> SegmentedFusion:
        return cut(arranged, layouts, refuse, copies, shared_rows(arranged, target))

    met = meet_columns(fusion, target)
    found = segmented(met)
    if met is not fusion and any(refuse(s) is not None for s in found.segments if s.met):
        found = segmented(fusion)
    narrow = found.fusion if strict else reading_results(found)
    if narrow is not found.fusion:
        found = min(found, segmented(narrow), key=bytes_read)
    return turned(found, target.l2_bytes)


def generate(segment: Segment, tuner: Tuner, watch: Callable[..., Any]) -> Candidate | None:
    """The kernel of a segment; None where torch runs it."""
    toolchain = TOOLCHAINS[tuner.target.kind]
    if segment.is_opaque or tuner.options.evaluator or not toolchain.is_available():
        return None
    return tuner.choose(segment, watch)
