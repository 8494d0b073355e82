"""What a complete definition stands for: one immutable object, shared by all that are equal."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Protocol

import torch

from thunder_fuser.analysis.propagate import ShardingPlan
from thunder_fuser.frontend.arguments import InputSpec, Runtime
from thunder_fuser.frontend.fids import Fids
from thunder_fuser.frontend.records import Record, Result
from thunder_fuser.frontend.text import print_definition
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.mesh import DeviceMesh
from thunder_fuser.ir.scalar import Scalar, Symbol
from thunder_fuser.ir.tensor import TensorView

if TYPE_CHECKING:
    from thunder_fuser.options import Options
    from thunder_fuser.runtime.origin import Origin
    from thunder_fuser.runtime.profile import Profile


class Plan(Protocol):
    """How one class of arguments is run; `str()` shows it."""

    @property
    def sources(self) -> Sequence[str]:
        """The text of each kernel."""

    @property
    def launches(self) -> int:
        """Kernels that are launched."""


class Program(Protocol):
    """A compiled fusion, as the pipeline makes it. It keeps a plan per class of arguments."""

    @property
    def plans(self) -> tuple[Plan, ...]:
        """The plans made so far: none before the first run."""

    @property
    def recompiles(self) -> Iterable[str]:
        """Why there is more than one plan: a reason for each after the first."""

    def run(
        self,
        arguments: Sequence[Runtime],
        options: Options,
        device: torch.device | None,
        origin: Origin | None = None,
    ) -> list[torch.Tensor]:
        """Run on arguments in the order of `Fusion.inputs`; the result has that of its outputs."""

    def bound(
        self,
        arguments: Sequence[Runtime],
        options: Options,
        device: torch.device | None,
        origin: Origin | None = None,
    ) -> Callable[[Sequence[Runtime]], list[torch.Tensor]]:
        """`run` for other arguments of the same class."""

    def profile(
        self,
        arguments: Sequence[Runtime],
        options: Options,
        device: torch.device | None,
        origin: Origin | None = None,
    ) -> tuple[list[torch.Tensor], Profile]:
        """`run`, with the time of each segment."""

    def plan(
        self,
        arguments: Sequence[Runtime],
        options: Options,
        device: torch.device | None,
        origin: Origin | None = None,
    ) -> Plan:
        """The plan that `run` would use."""


@dataclass(frozen=True, eq=False)
class Definition:
    """A definition built and not yet in a cache.

    `results` are what each record made and `owners` the tensors built for it, `specs` what is
    demanded of the arguments, `draws` the scalars at the end of `fusion.inputs` that are drawn from
    torch's generator at every run. `sharding` says what several devices of `mesh` would do, and
    `required` has the extents that may be 0 in no run.
    """

    records: tuple[Record, ...]
    results: tuple[tuple[Result, ...], ...]
    fusion: Fusion
    fids: Fids
    specs: tuple[InputSpec, ...]
    draws: tuple[Symbol, ...]
    owners: tuple[tuple[TensorView, ...], ...]
    mesh: DeviceMesh | None = None
    sharding: ShardingPlan | None = None
    required: tuple[Scalar, ...] = ()


@dataclass(frozen=True, eq=False)
class Leaf:
    """A definition in the cache, under an id that is never used again, with its program."""

    id: int
    definition: Definition
    program: Program

    @property
    def records(self) -> tuple[Record, ...]:
        return self.definition.records

    @property
    def fusion(self) -> Fusion:
        return self.definition.fusion

    @property
    def fids(self) -> Fids:
        return self.definition.fids

    @cached_property
    def written(self) -> tuple[int, ...]:
        """The positions of the inputs that are written in place."""
        targets = {write.target for write in self.fusion.writes}
        return tuple(k for k, value in enumerate(self.fusion.inputs) if value in targets)

    def __str__(self) -> str:
        """Python text that defines the same fusion."""
        return print_definition(self.records, self.definition.results, f"fuser_fusion_id{self.id}")
