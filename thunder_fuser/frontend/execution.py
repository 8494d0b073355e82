"""One run of a definition: checked arguments, options, device, random numbers; then the program."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch

from thunder_fuser.frontend.arguments import Runtime, TensorSpec, check_arguments
from thunder_fuser.frontend.devices import require_one_device
from thunder_fuser.frontend.leaf import Definition, Leaf, Plan
from thunder_fuser.frontend.repro import describe_inputs
from thunder_fuser.ir.scalar import Symbol, bind, is_constant
from thunder_fuser.options import Options, current
from thunder_fuser.runtime.evaluate import bind_arguments
from thunder_fuser.runtime.lazy import resolved, returned
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.runtime.profile import Profile
from thunder_fuser.runtime.ranges import region_ranged
from thunder_fuser.runtime.writes import check_writable, note_writes

_PHILOX_STEP = 4  # torch counts single numbers, a Philox call makes four


@dataclass(frozen=True)
class Request:
    """What a caller of `execute` asks for beside the result."""

    device: Any = None
    options: Options | None = None
    enable: Sequence[str] = ()
    disable: Sequence[str] = ()
    profile: bool = False
    capture_debug_output: bool = False
    save_repro_inputs: bool = False


@dataclass(frozen=True, eq=False)
class Execution:
    """What a run leaves behind; it keeps no argument alive. None where it was not asked for."""

    plan: Plan
    profile: Profile | None
    debug_output: str | None
    saved_inputs: tuple[object, ...] | None


def run(
    leaf: Leaf, inputs: Sequence[object], request: Request, origin: Origin
) -> tuple[list[torch.Tensor], Execution]:
    """Run `leaf`; its outputs and what there is to tell about the run.

    Raises ValueError or TypeError for arguments, device or options that do not fit, FuserError that
    names a repro script for what fails after that, RuntimeError for several devices and for a
    target that torch would not write; out of memory is torch's own error.
    """
    require_one_device(leaf.definition)
    arguments = check_arguments(leaf.definition.specs, inputs)
    options = resolve_options(request)
    device = resolve_device(leaf, arguments, request.device)
    complete = [*arguments, *draw(leaf.definition.draws, device)]
    check_extents(leaf.definition, complete)
    if leaf.written:
        check_writable(complete, leaf.written)
    given = resolved(complete)
    saved = describe_inputs(arguments) if request.save_repro_inputs else None
    profile = None
    if request.profile:
        outputs, profile = leaf.program.profile(given, options, device, origin)
    else:
        call = region_ranged(options.ranges, origin.name, leaf.program.run)
        outputs = call(given, options, device, origin)
    plan = leaf.program.plan(given, options, device, origin)
    debug_output = str(plan) if request.capture_debug_output else None
    if leaf.written:
        note_writes(complete, leaf.written)
    outputs = returned(outputs, complete, given, leaf.written)
    return outputs, Execution(plan, profile, debug_output, saved)


def check_extents(definition: Definition, complete: Sequence[Runtime]) -> None:
    """Raises ValueError where an extent is 0 of which the definition needs an element."""
    if not definition.required:
        return
    values = bind_arguments(definition.fusion, complete)
    if any(is_constant(bind(extent, values), 0) for extent in definition.required):
        raise ValueError("an argmax or argmin of no elements has no result")


def resolve_options(request: Request) -> Options:
    """The request's options, by default the current ones, with switches turned on and off.

    Raises ValueError for a name that is no switch.
    """
    options = request.options if request.options is not None else current()
    switches = sorted(f.name for f in fields(Options) if isinstance(f.default, bool))
    for names, value in ((request.enable, True), (request.disable, False)):
        for name in names:
            if name not in switches:
                raise ValueError(f"unknown option {name!r}; valid names: {', '.join(switches)}")
            options = options.with_values(**{name: value})
    return options


def resolve_device(leaf: Leaf, arguments: Sequence[Runtime], asked: Any) -> torch.device:
    """Where to run: on the tensors' device, else on the one asked for, else on the default one.

    Raises ValueError where these contradict each other, or where CPU scalars are all there is and
    something must be computed.
    """
    wanted = torch.device(asked) if asked is not None else None
    if wanted is not None and wanted.type not in ("cuda", "cpu"):
        raise ValueError(
            f"device={asked!r}: fusions run on CUDA devices, or on the CPU as host target"
        )
    if wanted is not None and wanted.type == "cuda" and wanted.index is None:
        wanted = torch.device("cuda", torch.cuda.current_device())
    for spec, value in zip(leaf.definition.specs, arguments, strict=True):
        if isinstance(spec, TensorSpec) and not spec.is_cpu:
            assert isinstance(value, torch.Tensor)
            if wanted is not None and value.device != wanted:
                raise ValueError(
                    f"device={asked!r}, but argument T{spec.fid} lies on {value.device}"
                )
            return value.device
    scalars = [s for s in leaf.definition.specs if isinstance(s, TensorSpec)]
    if wanted is None and scalars and any(tv.definition for tv in leaf.fusion.outputs):
        names = ", ".join(f"T{spec.fid} on cpu" for spec in scalars)
        raise ValueError(f"nothing says where to compute the outputs: {names}; pass device=")
    if wanted is not None:
        return wanted
    return (
        torch.device("cuda", torch.cuda.current_device())
        if torch.cuda.is_available()
        else torch.device("cpu")
    )


def draw(symbols: Iterable[Symbol], device: torch.device) -> list[int]:
    """Seed and offset of each random op without its own, taken from torch's generator.

    On CUDA the offset counts Philox steps, one per op: torch's offset / 4, which is moved on. A CPU
    generator has no offset, so one is drawn from it; both repeat after `torch.manual_seed`.
    """
    numbers: list[int] = []
    for symbol in symbols:
        numbers.append(_seed(device) if symbol.name.startswith("rng_seed") else _offset(device))
    return numbers


def _seed(device: torch.device) -> int:
    if device.type == "cuda":
        return _signed(torch.cuda.default_generators[device.index].initial_seed())
    return _signed(torch.initial_seed())


def _offset(device: torch.device) -> int:
    if device.type != "cuda":
        return int(torch.randint(0, 2**31, (), device="cpu"))
    generator = torch.cuda.default_generators[device.index]
    offset = generator.get_offset() // _PHILOX_STEP
    generator.set_offset((offset + 1) * _PHILOX_STEP)
    return int(offset)


def _signed(seed: int) -> int:
    """The same 64 bits as an int64."""
    return seed - 2**64 if seed >= 2**63 else seed
