"""FusionDefinition: fusions written by hand, and what an executor writes for a region.

with FusionDefinition() as fd:
    x = fd.define_tensor([-1, -1], contiguity=True, dtype=DataType.Float)
    fd.add_output(fd.ops.exp(x))
(y,) = fd.execute([tensor])
"""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, TypeVar

import torch

from thunder_fuser.frontend.arguments import check_arguments
from thunder_fuser.frontend.axes import explain_axes
from thunder_fuser.frontend.cache import FusionCache
from thunder_fuser.frontend.calls import DefinitionCalls
from thunder_fuser.frontend.devices import require_one_device, simulate_definition
from thunder_fuser.frontend.execution import Execution, Request, draw, resolve_device, run
from thunder_fuser.frontend.fids import Fids
from thunder_fuser.frontend.handles import Tensor
from thunder_fuser.frontend.leaf import Leaf
from thunder_fuser.frontend.mismatch import refusal
from thunder_fuser.frontend.origin import origin_of
from thunder_fuser.frontend.partition import partition
from thunder_fuser.frontend.recorder import Recorder
from thunder_fuser.frontend.repro import repro_script
from thunder_fuser.frontend.segmented_run import Segmented
from thunder_fuser.frontend.segments import segment_definitions
from thunder_fuser.frontend.source_line import Place
from thunder_fuser.frontend.text import print_definition
from thunder_fuser.frontend.validate import validate
from thunder_fuser.options import Options, current
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.runtime.profile import Profile

_T = TypeVar("_T")
MAX_LENGTH = 9999  # records of one definition, against runaway loops


class FusionDefinition(DefinitionCalls):
    """A fusion: defined once, inside `with` or by a subclass's `definition`, then executed.

    `id` reopens a fusion that `cache` holds, to execute it only. `max_length` bounds the records.
    Raises ValueError for a bound below 1, RuntimeError for an id that is not live.
    """

    def __init__(
        self,
        id: int | None = None,
        max_length: int = MAX_LENGTH,
        *,
        cache: FusionCache | None = None,
    ) -> None:
        super().__init__()
        if max_length < 1:
            raise ValueError(f"max_length is {max_length}; a definition needs at least 1 record")
        self._cache = cache if cache is not None else FusionCache.get()
        self._max_length = max_length
        self._recorder: Recorder | None = None
        self._leaf = self._cache.leaf(id) if id is not None else None
        self._last: Execution | None = None
        self._places: tuple[Place, ...] = ()
        self._origin: Origin | None = None

    # Recording.

    def __enter__(self) -> FusionDefinition:
        if self._leaf is not None:
            raise RuntimeError(
                f"this FusionDefinition is complete, its fusion has id {self._leaf.id}: execute "
                "it, or make another FusionDefinition to define another fusion"
            )
        if self._recorder is not None:
            raise RuntimeError("this FusionDefinition is already open: leave its `with` first")
        self._recorder = Recorder(self, self._cache, self._max_length)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        recorder, self._recorder = self._recorder, None
        if error is None and recorder is not None:
            with recorder.call("FusionDefinition"):
                self._leaf = recorder.finish()
            self._places = tuple(recorder.places)

    def definition(self) -> None:
        """What a subclass overrides to define its fusion; called at the first `execute`. Raises
        NotImplementedError where none did."""
        raise NotImplementedError(
            f"{type(self).__name__} has nothing to run: define it with `with fd:` or override "
            "definition(self) in a subclass"
        )

    # The complete definition.

    @property
    def leaf(self) -> Leaf:
        """The shared object this definition stands for; a subclass is defined now if need be.
        Raises RuntimeError while the definition is open."""
        if self._leaf is None:
            if self._recorder is not None:
                raise RuntimeError("this FusionDefinition is still open: leave its `with` first")
            with self:
                self.definition()
            assert self._leaf is not None
        return self._leaf

    @property
    def id(self) -> int:
        """The id of the fusion in the cache."""
        return self.leaf.id

    @property
    def fids(self) -> Fids:
        """The numbers of its inputs, their extents and its outputs."""
        return self.leaf.fids

    def inputs(self) -> list[int]:
        """The fids of the runtime arguments, in order."""
        return list(self.fids.inputs)

    def outputs(self) -> list[int]:
        """The fids of the returned tensors, in order."""
        return list(self.fids.outputs)

    def extents(self) -> list[int]:
        """Negative fids, one per logical dim of every tensor input."""
        return list(self.fids.extents)

    def fusion_ir(self) -> str:
        """The printed IR."""
        return str(self.leaf.fusion)

    def __str__(self) -> str:
        """Python text that defines the same fusion; while it is open, what is recorded so far."""
        if self._recorder is not None:
            recorder = self._recorder
            return print_definition(recorder.records, recorder.results, "fuser_fusion")
        return str(self.leaf)

    # Running it.

    def execute(
        self,
        inputs: Sequence[object],
        *,
        device: Any = None,
        profile: bool = False,
        capture_debug_output: bool = False,
        print_repro: bool = False,
        save_repro_inputs: bool = False,
        _enable_options: Sequence[str] = (),
        _disable_options: Sequence[str] = (),
        options: Options | None = None,
    ) -> list[torch.Tensor]:
        """Run on `inputs` (lists stand for vectors); the visible outputs in order.

        Raises ValueError or TypeError for arguments that the definition does not describe.
        """
        leaf = self.leaf
        self._cache.touch(leaf)
        if print_repro:
            print(repro_script(leaf, inputs))
        request = Request(
            device,
            options,
            _enable_options,
            _disable_options,
            profile,
            capture_debug_output,
            save_repro_inputs,
        )
        try:
            outputs, self._last = run(leaf, inputs, request, self.origin())
        except ValueError as error:
            located = self._located(inputs)
            if located is None:
                raise
            raise located from error
        return outputs

    def validate(
        self,
        inputs: Sequence[object],
        reference_outputs: Sequence[torch.Tensor] | None = None,
        **keywords: Any,
    ) -> list[torch.Tensor]:
        """Execute and compare with `reference_outputs`, by default torch's in fp64.

        Raises AssertionError that names the output, the largest difference and where it is.
        """
        return validate(self, inputs, reference_outputs, keywords)

    def segment(self, inputs: Sequence[object]) -> Segmented:
        """What the pipeline cuts these arguments into, as definitions; none for one segment."""
        leaf = self.leaf
        require_one_device(leaf.definition)
        arguments = check_arguments(leaf.definition.specs, inputs)
        device = resolve_device(leaf, arguments, None)
        complete = [*arguments, *draw(leaf.definition.draws, device)]
        groups = partition(leaf.fusion, complete, current(), device)
        return Segmented(leaf, segment_definitions(leaf, groups, self._cache))

    def simulate(self, inputs: Sequence[object]) -> list[torch.Tensor]:
        """The outputs as several devices of the mesh would compute them from their shards of the
        global `inputs`: in this process, element by element, so for small tensors.

        Raises RuntimeError without a mesh of several devices, ValueError for unfit arguments.
        """
        return simulate_definition(self.leaf.definition, inputs)

    def last_cuda_code(self) -> str:
        """The kernels' text of the last `execute`. Raises RuntimeError before the first."""
        return "\n".join(self._executed("last_cuda_code", "").plan.sources)

    def profile(self) -> Profile:
        """Time, bytes and grid of each segment of the last run; `str()` is a table.

        Raises RuntimeError without `profile=True`."""
        found = self._executed("profile", "profile=True").profile
        return _wanted(found, "profile", "profile=True")

    def debug_output(self) -> str | None:
        """The plan of the last run, None without `capture_debug_output=True`."""
        return self._last.debug_output if self._last is not None else None

    def repro_script_for(self, inputs: Sequence[object] | None = None) -> str:
        """A script that defines the same fusion and executes it on random inputs like these."""
        return repro_script(self.leaf, inputs)

    def last_repro_script(self) -> str:
        """Of the last run. Raises RuntimeError without `save_repro_inputs=True`."""
        keyword = "save_repro_inputs=True"
        saved = self._executed("last_repro_script", keyword).saved_inputs
        return repro_script(self.leaf, _wanted(saved, "last_repro_script", keyword))

    def explain(self) -> str:
        """The definition, its fids, its IR, its sharding on several devices and, after a run, the
        plan with its reasons."""
        fids, sharding = self.fids, self.leaf.definition.sharding
        parts = [
            str(self),
            f"inputs {self.inputs()}, outputs {self.outputs()}, extents {self.extents()}, "
            f"aliases {dict(fids.aliases)}",
            self.fusion_ir(),
        ]
        parts += [str(sharding)] if sharding is not None else []
        return "\n\n".join([*parts, *([str(self._last.plan)] if self._last is not None else [])])

    def explain_axes(
        self, a: tuple[Tensor, int], b: tuple[Tensor, int], map: str = "almost_exact"
    ) -> str:
        """Why two axes, each a tensor and a dim, run over the same elements, or a point where they
        differ. `map` is exact, almost_exact, broadcast or permissive (docs/axes.md)."""
        return explain_axes(self.leaf, a, b, map)

    def origin(self, name: str | None = None, owner: object | None = None) -> Origin:
        """What the pipeline tells about this definition; always the same object.

        `name` is how messages and dumps call it, by default `fusion_<id>`; `owner` is the region
        that it belongs to, by default the definition itself.
        """
        if self._origin is None:
            name = name or f"fusion_{self.leaf.id}"
            self._origin = origin_of(self.leaf, name, owner, self._places)
        return self._origin

    def written_at(self, place: Place | None) -> None:
        """The user's line of the records that follow, for who records on behalf of a program. None
        stands for the line of the call."""
        self._open("written_at").place = place

    def _located(self, inputs: Sequence[object]) -> ValueError | None:
        """What names the call of the definition that these inputs contradict, None without one."""
        definition = self.leaf.definition
        try:
            found = refusal(definition, check_arguments(definition.specs, inputs))
        except ValueError:  # an argument on its own does not fit, and the error says which
            return None
        if found is None:
            return None
        place = f"\n  at {self._places[found.record]}" if self._places else ""
        return ValueError(f"{found.text}{place}")

    def _executed(self, name: str, keyword: str) -> Execution:
        if self._last is None:
            raise RuntimeError(_needs_run(name, keyword))
        return self._last

    def _open(self, call: str) -> Recorder:
        """The recorder, while the definition is open."""
        if self._recorder is not None:
            return self._recorder
        if self._leaf is not None:
            raise RuntimeError(f"{call}: the definition is complete, fusion {self._leaf.id}")
        raise RuntimeError(
            f"{call}: the definition is not open; open it with `with` or definition()"
        )


def _needs_run(name: str, keyword: str) -> str:
    return (
        f"{name}() needs a run before it: call execute(inputs{', ' + keyword if keyword else ''})"
    )


def _wanted(found: _T | None, name: str, keyword: str) -> _T:
    if found is None:
        raise RuntimeError(_needs_run(name, keyword))
    return found
