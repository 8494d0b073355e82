"""What a fusion of a trace calls: one FusionDefinition per way in which the tensors arrive.

Thunder's prologue guards shapes and dtypes, not strides. So the definition is recorded at the first
call with a given contiguity and stride order. Later calls compare shapes, strides, alignment and
device of their tensors with those of the last call, and go straight to its plan. Only where numbers
enter, of which some may be sizes, the program is asked for the plan each time.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from thunder.core.dtypes import to_torch_dtype
from thunder.core.profile import annotate_for_profile
from thunder.core.proxies import NumberProxy, TensorProxy
from thunder.core.symbol import BoundSymbol

from thunder_fuser.executor.claims import WRITE_PRIM, prim_name
from thunder_fuser.executor.inplace import Ref, advance, passed_through
from thunder_fuser.executor.translate import Layout, translate
from thunder_fuser.frontend.definition import FusionDefinition
from thunder_fuser.frontend.layout import compute_tensor_descriptor
from thunder_fuser.frontend.repro import TensorLike, describe_inputs, repro_script
from thunder_fuser.options import Options
from thunder_fuser.runtime.argument_class import Key, tensor_key_function
from thunder_fuser.runtime.lazy import resolved, returned
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.runtime.profile import Profile
from thunder_fuser.runtime.ranges import region_ranged

MAX_CLASSES = 256  # argument classes remembered per region

Run = Callable[[Sequence[Any]], Sequence[Any]]


class CacheInfo(NamedTuple):
    """Calls that found their definition, that had to record one, the bound, and what is held."""

    hits: int
    misses: int
    maxsize: int
    currsize: int


class FusedRegion:
    """The callable of one region: positional inputs in, the list of region outputs back.

    `last_used` is the FusionDefinition of the last call, None before the first. `definitions` holds
    all that were recorded.
    """

    def __init__(
        self,
        name: str,
        bsyms: Sequence[BoundSymbol],
        inputs: Sequence[Any],
        outputs: Sequence[Any],
        device: str,
        options: Options,
    ) -> None:
        self.name = name
        self.bsyms = tuple(bsyms)
        self.inputs = tuple(inputs)
        self.outputs = tuple(outputs)
        self.device = torch.device(device)
        self.options = options
        self.last_used: FusionDefinition | None = None
        self._profiles: list[Profile] | None = None
        self._key = tensor_key_function(map(_dtype, self.inputs))
        self._has_numbers = not all(isinstance(p, TensorProxy) for p in self.inputs)
        entering = passed_through(self.bsyms, self.inputs)
        self._passed = tuple(entering.get(p.name) for p in self.outputs)
        self._written = _targets(bsyms, inputs)
        self._works = bool(self._written) or None in self._passed
        self._over: dict[str, Any] = {}  # an output by the name of the input it is written over
        self._guarded = _targets(bsyms, inputs, may_be_leaves=True)
        self.cache_clear()

    def __call__(self, *args: Any) -> Sequence[Any]:
        self._calls += 1
        if self._guarded:
            self._refuse_leaves(args)
        key = self._key(*args)
        entry = self._last
        if entry[0] != key:
            entry = self._select(key, args)
        return entry[1](args)

    def __repr__(self) -> str:
        return f"FusedRegion({self.name}: {', '.join(b.sym.name for b in self.bsyms)})"

    def write_over(self, donor: Any, result: Any) -> None:
        """Let the output `result` take the memory of the input `donor`, of which the caller knows
        that nothing reads it after a call. For regions that were not called yet."""
        position = [p.name for p in self.inputs].index(donor.name)
        self._passed = tuple(
            position if p.name == result.name else known
            for p, known in zip(self.outputs, self._passed, strict=True)
        )
        self._over[donor.name] = result
        self._written = (*self._written, position)

    @property
    def computed(self) -> tuple[Any, ...]:
        """The outputs that a definition returns; the others are inputs that are handed through."""
        return tuple(p for p, k in zip(self.outputs, self._passed, strict=True) if k is None)

    @property
    def definitions(self) -> tuple[FusionDefinition, ...]:
        """The recorded definitions, oldest first."""
        return tuple(self._definitions.values())

    @property
    def last_plan(self) -> Plan | None:
        """The plan that was used last, None before the first call. Regions that are equal share a
        definition: it may have been used last by another one."""
        plans = self.last_used.leaf.program.plans if self.last_used is not None else ()
        last = plans[-1] if plans else None
        assert last is None or isinstance(last, Plan)  # frontend knows plans by a protocol only
        return last

    def plans(self) -> list[str]:
        """The printed plans of every call so far: segments, kernels, aliases."""
        return [str(plan) for fd in self.definitions for plan in fd.leaf.program.plans]

    def repro(self) -> str:
        """A script that runs the last definition on tensors like those that it was first called
        with, of random elements. Raises ValueError before the first call."""
        fd, given = self._repeated()
        return repro_script(fd.leaf, given, self.name, self.options)

    def profile_alone(self) -> Profile:
        """The second of two runs of the last definition on such tensors, segment by segment.
        Raises ValueError before the first call."""
        fd, given = self._repeated()
        for _ in range(2):
            arguments = [v.make() if isinstance(v, TensorLike) else v for v in given]
            _, profile = fd.leaf.program.profile(
                arguments, self.options, self.device, fd.origin(self.name, self)
            )
        return profile

    def _repeated(self) -> tuple[FusionDefinition, tuple[Any, ...]]:
        """The last definition and the arguments that it was first called with, without elements."""
        if self.last_used is None:
            raise ValueError(f"{self.name} was not called yet: it has no definition to repeat")
        return self.last_used, self._described[id(self.last_used)]

    def recompiles(self) -> list[str]:
        """Why there is more than one plan of a definition."""
        return [reason for fd in self.definitions for reason in fd.leaf.program.recompiles]

    def cache_info(self) -> CacheInfo:
        misses = len(self._definitions)
        return CacheInfo(self._calls - misses, misses, MAX_CLASSES, len(self._by_key))

    @contextmanager
    def profiled(self) -> Iterator[list[Profile]]:
        """While the block runs, calls of the region are timed and their profiles collected."""
        found: list[Profile] = []
        self._profiles = found
        self._forget_choices()
        try:
            yield found
        finally:
            self._profiles = None
            self._forget_choices()

    def _forget_choices(self) -> None:
        self._last: tuple[Key, Run] = ((object(),), _never)
        self._by_key: OrderedDict[Key, tuple[FusionDefinition | None, Run]] = OrderedDict()

    def cache_clear(self) -> None:
        """Forget every definition; the next call records its own again."""
        self._calls = 0
        self._forget_choices()
        self._definitions: dict[Any, FusionDefinition] = {}
        self._described: dict[int, tuple[Any, ...]] = {}  # by definition, which stays alive
        self.last_used = None

    def _select(self, key: Key, args: Sequence[Any]) -> tuple[Key, Run]:
        """Make the entry for this class the last one, recording its definition if it is new."""
        found = self._by_key.pop(key, None)
        fd, run = found or self._choose(args)
        self._by_key[key] = fd, run  # last, as the most recently used
        if len(self._by_key) > MAX_CLASSES:
            self._by_key.popitem(last=False)
        self.last_used, self._last = fd or self.last_used, (key, run)
        return self._last

    def _choose(self, args: Sequence[Any]) -> tuple[FusionDefinition | None, Run]:
        if not self._works:
            return None, self._rename
        if (given := resolved(args)) is not args:
            return self._choose_resolved(given)
        self.last_used = fd = self._define(args)
        return fd, self._runner(fd, args)

    def _choose_resolved(self, given: Sequence[Any]) -> tuple[FusionDefinition | None, Run]:
        """For arguments of which kernels would not read what torch does, but do of the `given`."""
        fd, run = self._choose(given)

        def run_resolved(args: Sequence[Any]) -> Sequence[Any]:
            given = resolved(args)
            return returned(run(given), args, given, self._written)

        return fd, run_resolved

    def _runner(self, fd: FusionDefinition, args: Sequence[Any]) -> Run:
        program, options, device = fd.leaf.program, self.options, self.device
        origin, passed, profiles = fd.origin(self.name, self), self._passed, self._profiles

        def run_as_numbers_say(args: Sequence[Any]) -> Sequence[Any]:
            return program.run(args, options, device, origin)

        def run_profiled(args: Sequence[Any]) -> Sequence[Any]:
            outputs, profile = program.profile(args, options, device, origin)
            assert profiles is not None
            profiles.append(profile)
            return outputs

        run: Run = run_profiled
        if profiles is None and self._has_numbers:
            run = run_as_numbers_say
        elif profiles is None:
            run = program.bound(args, options, device, origin)

        def run_and_pass(args: Sequence[Any]) -> Sequence[Any]:
            made = iter(run(args))
            return [next(made) if position is None else args[position] for position in passed]

        chosen = run if all(position is None for position in passed) else run_and_pass
        # A range of its own where THUNDER_ANNOTATE_TRACES asks for them, `chosen` itself otherwise.
        annotated: Run = annotate_for_profile(f"{self.name} of thunder_fuser")(chosen)
        return region_ranged(options.ranges, self.name, annotated)

    def _rename(self, args: Sequence[Any]) -> Sequence[Any]:
        """What is left of a region whose computed results turned out equal to others."""
        return [args[position] for position in self._passed if position is not None]

    def _define(self, args: Sequence[Any]) -> FusionDefinition:
        shapes, layouts = self._arrival(args)
        key = (tuple(shapes), tuple(layouts))
        fd = self._definitions.get(key)
        if fd is None:
            fd = FusionDefinition()
            with fd:
                translate(fd, self.bsyms, self.inputs, self.computed, shapes, layouts, self._over)
            self._definitions[key] = fd
            self._described[id(fd)] = describe_inputs(args)
        return fd

    def _arrival(
        self, args: Sequence[Any]
    ) -> tuple[list[tuple[int, ...] | None], list[Layout | None]]:
        """Shape as defined (-1 where it may change, but 1 stays 1) and layout of each tensor."""
        shapes: list[tuple[int, ...] | None] = []
        layouts: list[Layout | None] = []
        for proxy, arg in zip(self.inputs, args, strict=True):
            if not isinstance(proxy, TensorProxy):
                shapes.append(None)
                layouts.append(None)
                continue
            shapes.append(
                tuple(
                    -1 if isinstance(extent, NumberProxy) and size != 1 else size
                    for extent, size in zip(proxy.shape, arg.shape, strict=True)
                )
            )
            layouts.append(compute_tensor_descriptor(arg.shape, arg.stride()))
        return shapes, layouts

    def _refuse_leaves(self, args: Sequence[Any]) -> None:
        for position in self._guarded:
            target = args[position]
            if target.requires_grad and target.is_leaf:
                raise RuntimeError(
                    "a leaf Variable that requires grad is being used in an in-place operation: "
                    f"argument {self.inputs[position].name} of {self.name}."
                )


def region_of(bsym: BoundSymbol) -> FusedRegion | None:
    """The callable of one of our fusions, None for anything else."""
    call = (bsym._call_ctx or {}).get(bsym.sym.name)
    return call if isinstance(call, FusedRegion) else None


def _dtype(proxy: Any) -> torch.dtype | None:
    """Of a tensor; None for a number."""
    return to_torch_dtype(proxy.dtype) if isinstance(proxy, TensorProxy) else None


def _targets(
    bsyms: Sequence[BoundSymbol], inputs: Sequence[Any], *, may_be_leaves: bool = False
) -> tuple[int, ...]:
    """Positions of the inputs that are written, or of those that torch refuses to write if they are
    leaves with a gradient."""
    refs: dict[str, Ref] = {}
    targets: set[str] = set()
    for bsym in bsyms:
        is_meant = bsym.kwargs.get("grad_enabled") or not may_be_leaves
        if prim_name(bsym) == WRITE_PRIM and is_meant:
            name = bsym.args[1].name
            targets.add(refs.get(name, Ref(name)).root)
        advance(bsym, refs)
    return tuple(i for i, p in enumerate(inputs) if p.name in targets)


def _never(args: Sequence[Any]) -> Sequence[Any]:
    raise AssertionError("no call has chosen a definition yet")
