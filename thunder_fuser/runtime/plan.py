"""The launch plan: everything decided, printed as straight-line Python, and run.

    def run(T0, T1):
        stream = current_stream(0)
        T4 = empty((2, 16), (16, 1), bfloat16)
        launch0(stream, T0.data_ptr(), T1.data_ptr(), T4.data_ptr())
        T5 = T0.as_strided((2, 8), (16, 1), T0.storage_offset() + 8)
        return [T4, T5]

A plan belongs to one class of arguments (shapes, strides, alignment, device), so nothing is left to
look up: allocate, launch, view, release. On a GPU it begins by making its device current where
another one is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

import torch

from thunder_fuser.analysis.layout import Layout
from thunder_fuser.analysis.views import View
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.scalar import Scalar
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ir.text import tensor_names
from thunder_fuser.kernel.names import pointer_tensors
from thunder_fuser.kernel.source import Source
from thunder_fuser.runtime.compilation import Launcher
from thunder_fuser.runtime.dtypes import TORCH_DTYPES
from thunder_fuser.runtime.overlap import separate
from thunder_fuser.runtime.tickets import tickets
from thunder_fuser.runtime.title import Place
from thunder_fuser.runtime.torch_segment import torch_inputs, torch_outputs, torch_segment
from thunder_fuser.segment.segment import Segment
from thunder_fuser.segment.segmented import SegmentedFusion

_T = TypeVar("_T")
Run: TypeAlias = Callable[..., list[torch.Tensor]]
Around: TypeAlias = Callable[[int, Callable[..., Any]], Callable[..., Any]]

PLAN_FILE = "<launch plan"  # how the file names of plans begin, in tracebacks
_OWN = ".data"  # the same memory, of which torch does not know that it is a view


def _nowhere(tensor: TensorView) -> str | None:
    return None


@dataclass(frozen=True, eq=False)
class Plan:
    """How one class of arguments is run. `run` takes the fusion's arguments in order."""

    segmented: SegmentedFusion
    kernels: tuple[Source | None, ...]  # per segment; None where torch runs it
    launchers: tuple[Launcher | None, ...]
    arguments: tuple[TensorView | Scalar, ...]
    device: torch.device
    text: str
    run: Run
    place: Place  # the user's line of a tensor
    names: Mapping[str, Any]  # what `text` uses, launchers aside

    @property
    def sources(self) -> tuple[str, ...]:
        """The CUDA C++ text of each kernel."""
        return tuple(source.text for source in self.kernels if source is not None)

    @property
    def launches(self) -> int:
        return sum(source is not None and source.blocks > 0 for source in self.kernels)

    def with_kernel(self, position: int, source: Source, launcher: Launcher) -> Plan:
        """This plan with another kernel for a segment, of the same parameters."""
        kernels = _replaced(self.kernels, position, source)
        launchers = _replaced(self.launchers, position, launcher)
        run = _compiled(self.text, self.names, launchers, _as_is)
        return replace(self, kernels=kernels, launchers=launchers, run=run)

    def __str__(self) -> str:
        return f"{self.segmented}\n{self.text}"


def build_plan(
    segmented: SegmentedFusion,
    kernels: Sequence[Source | None],
    launchers: Sequence[Launcher | None],
    arguments: Sequence[TensorView | Scalar],
    device: torch.device,
    place: Place = _nowhere,
) -> Plan:
    """Generate and compile the plan's function.

    `launchers` has None where torch runs a segment. `arguments` says what each argument of the call
    is: a tensor input, a scalar input, or a scalar symbol that stands for the value of a
    zero-dimensional CPU tensor.
    """
    kernels = [k if launch else None for k, launch in zip(kernels, launchers, strict=True)]
    writer = _Writer(segmented, kernels, arguments, device)
    text = writer.write()
    return Plan(
        segmented,
        tuple(kernels),
        tuple(launchers),
        tuple(arguments),
        device,
        text,
        _compiled(text, writer.bound, launchers, _as_is),
        place,
        writer.bound,
    )


def observed(plan: Plan, around: Around) -> Run:
    """The plan's function with the work of each segment replaced by `around(position, work)`."""
    return _compiled(plan.text, plan.names, plan.launchers, around)


def _compiled(
    text: str, names: Mapping[str, Any], launchers: Sequence[Launcher | None], around: Around
) -> Run:
    namespace = dict(names)
    for position, launch in enumerate(launchers):
        name = f"evaluate{position}" if launch is None else f"launch{position}"
        namespace[name] = around(position, names[name] if launch is None else launch)
    code = compile(text, f"{PLAN_FILE} of {len(launchers)} segments>", "exec")
    exec(code, namespace)
    run: Run = namespace["run"]
    return run


def _replaced(items: Sequence[_T], position: int, item: _T) -> tuple[_T, ...]:
    return (*items[:position], item, *items[position + 1 :])


def _as_is(position: int, work: Callable[..., Any]) -> Callable[..., Any]:
    return work


class _Writer:
    """Collects the lines of a plan and the objects that they name."""

    def __init__(
        self,
        segmented: SegmentedFusion,
        kernels: Sequence[Source | None],
        arguments: Sequence[TensorView | Scalar],
        device: torch.device,
    ) -> None:
        self.segmented, self.kernels = segmented, kernels
        self.arguments, self.device = arguments, device
        self.names = dict(tensor_names(segmented.fusion))
        self.only = self._only_views()
        self.shown = self._allocated_as_shown()
        self.names |= {root: self.names[tv] for root, tv in self.shown.items()}
        self.lines: list[str] = []
        self.defined = {a for a in arguments if isinstance(a, TensorView)}
        self.bound: dict[str, Any] = {"torch": torch, "separate": separate}
        self.scalars: dict[Scalar, str] = {}
        self.empty = self._allocator()

    def write(self) -> str:
        parameters = [self._parameter(k, a) for k, a in enumerate(self.arguments)]
        given = dict(self.names)
        if self.device.type == "cuda":
            self._make_current(parameters)
        self._separate_writes()
        if self.device.type == "cuda" and any(self.kernels):
            self.bound["current_stream"] = torch._C._cuda_getCurrentRawStream
            self.lines.append(f"stream = current_stream({self.device.index or 0})")
        last = self._last_uses()
        for position, segment in enumerate(self.segmented.segments):
            if self.kernels[position] is None:
                self._evaluate(position, segment)
            else:
                for target in (s.target for s in segment.stores):
                    self._result(target)
                self._launch(position, segment)
            released = [self.names[tv] for tv in last.get(position, ()) if tv in self.defined]
            if released:
                self.lines.append(f"del {', '.join(released)}")
        self._return_to(given)
        self.lines.append(f"return [{', '.join(self._result(tv) for tv in self._outputs())}]")
        return "\n".join(
            [f"def run({', '.join(parameters)}):", *(f"    {x}" for x in self.lines), ""]
        )

    def _make_current(self, parameters: Sequence[str]) -> None:
        """torch's shortest allocator, and what torch runs, take the current device."""
        ordinal = self.device.index or 0
        self.bound["current_device"] = torch._C._cuda_getDevice
        self.lines[:0] = [
            f"if current_device() != {ordinal}:",
            f"    with torch.cuda.device({ordinal}):",
            f"        return run({', '.join(parameters)})",
        ]

    def _parameter(self, position: int, argument: TensorView | Scalar) -> str:
        if isinstance(argument, TensorView):
            return self.names[argument]
        name = f"n{position}"
        self.scalars[argument] = name
        if isinstance(argument, sc.Symbol) and argument.name.startswith(CPU_SCALAR):
            self.lines.append(f"{name} = {name}.item()")
        return name

    def _outputs(self) -> list[TensorView]:
        """Returned tensors; the value of a write is returned as its target."""
        targets = {w.value: w.target for w in self.segmented.fusion.writes}
        return [targets.get(tv, tv) for tv in self.segmented.fusion.outputs]

    def _result(self, tv: TensorView) -> str:
        if tv not in self.defined:
            self._define(tv)
        return self.names[tv]

    def _define(self, tv: TensorView) -> None:
        """Make a tensor that no torch segment returns: allocate it, or view another."""
        name, view = self.names[tv], self.segmented.views.get(tv)
        if view is None or self.shown.get(view.root) is tv:
            self._allocate(tv if view is None else view.root)
            return
        self.defined.add(tv)
        root = self._result(view.root)
        offset = f", {root}.storage_offset() + {view.offset}" if view.offset else ""
        own = _OWN if self.only.get(view.root) is tv else ""
        self.lines.append(f"{name} = {root}.as_strided({view.shape}, {view.strides}{offset}){own}")

    def _only_views(self) -> dict[TensorView, TensorView]:
        """What is returned as one view of it and in no other way, and that view.

        It must be none to torch, which forbids writing into a view that a function with a gradient
        returns: eager may have a tensor of its own here."""
        returned: dict[TensorView, set[TensorView]] = {}
        for tv in self._outputs():
            returned.setdefault(self.segmented.storage(tv), set()).add(tv)
        found = {root: tvs.pop() for root, tvs in returned.items() if len(tvs) == 1}
        return {root: tv for root, tv in found.items() if root not in {tv, *self.arguments}}

    def _allocated_as_shown(self) -> dict[TensorView, TensorView]:
        """Those whose memory kernels alone use, by its address: it is allocated as the view."""
        used = {
            self.segmented.storage(tv)
            for segment, kernel in zip(self.segmented.segments, self.kernels, strict=True)
            if kernel is None
            for tv in (*torch_inputs(segment), *torch_outputs(segment))
        }
        return {
            root: tv
            for root, tv in self.only.items()
            if root not in used and self._is_whole(self.segmented.views[tv], root)
        }

    def _is_whole(self, view: View, root: TensorView) -> bool:
        """True for a view that begins and ends where the memory does."""
        span = Layout(view.shape, view.strides).span
        is_direct = view.root is root and view.offset == 0
        return is_direct and span == self.segmented.layouts[root].span

    def _allocate(self, tv: TensorView) -> None:
        self.defined |= {tv, self.shown.get(tv, tv)}
        self.lines.append(f"{self.names[tv]} = {self._empty(tv)}")

    def _empty(self, tv: TensorView) -> str:
        layouts, shown = self.segmented.layouts, self.shown.get(tv)
        place = layouts[tv] if shown is None else self.segmented.views[shown]
        dtype = TORCH_DTYPES[tv.dtype]
        self.bound[str(dtype).removeprefix("torch.")] = dtype
        return self.empty.format(
            shape=place.shape, strides=place.strides, dtype=str(dtype).removeprefix("torch.")
        )

    def _allocator(self) -> str:
        """torch's shortest way to an uninitialised tensor on the device."""
        fast = getattr(torch._C._dynamo.guards, "_empty_strided_cuda", None)
        if self.device.type == "cuda" and fast is not None:
            self.bound["empty_cuda"] = fast  # allocates on the current device
            return "empty_cuda({shape}, {strides}, {dtype})"
        self.bound["empty"], self.bound["device"] = torch.empty_strided, self.device
        return "empty({shape}, {strides}, dtype={dtype}, device=device)"

    def _launch(self, position: int, segment: Segment) -> None:
        source = self.kernels[position]
        assert source is not None
        pointers = [self._pointer(tv) for tv in pointer_tensors(segment)]
        scalars = [self._scalar(s) for s in segment.scalars]
        stream = "stream" if self.device.type == "cuda" else "0"
        if not source.blocks:
            return
        values = [stream, *pointers, *scalars]
        if source.tickets:
            self.bound |= {"uint8": torch.uint8, f"tickets{position}": tickets(source, self.device)}
            room = self.empty.format(shape=(source.workspace_bytes,), strides=(1,), dtype="uint8")
            self.lines.append(f"workspace, zeros = {room}, tickets{position}({stream})")
            values += ["workspace.data_ptr()", "zeros.data_ptr()"]
        self.lines.append(f"launch{position}({', '.join(values)})")
        if source.tickets:
            self.lines.append("del workspace, zeros")

    def _pointer(self, tv: TensorView) -> str:
        view = self.segmented.views.get(tv)
        if view is None:  # an empty one may have no segment that writes it
            return f"{self._result(tv)}.data_ptr()"
        offset = view.offset * tv.dtype.itemsize
        return f"{self._pointer(view.root)} + {offset}" if offset else self._pointer(view.root)

    def _scalar(self, scalar: Scalar) -> str:
        if scalar not in self.scalars:
            name = f"s{len(self.scalars)}"
            symbols = list(dict.fromkeys(sc.symbols_of(scalar)))
            self.bound[f"compute_{name}"] = _scalar_function(scalar, symbols)
            arguments = ", ".join(self.scalars[s] for s in symbols)
            self.lines.append(f"{name} = compute_{name}({arguments})")
            self.scalars[scalar] = name
        return self.scalars[scalar]

    def _evaluate(self, position: int, segment: Segment) -> None:
        """A segment that torch runs: its fusion is evaluated op by op."""
        fresh = torch_outputs(segment)
        self.bound[f"evaluate{position}"] = torch_segment(segment, self.device)
        arguments = [self._result(tv) for tv in torch_inputs(segment)]
        arguments += [self._scalar(s) for s in segment.scalars]
        targets = "".join(f"{self.names[tv]}, " for tv in fresh)
        call = f"evaluate{position}({', '.join(arguments)})"
        self.lines.append(f"{targets}= {call}" if fresh else call)
        returned = [self.names[tv] for tv in fresh if tv in self._outputs()]
        self.lines += [f"{name} = {name}{_OWN}" for name in returned]
        self.defined.update(fresh)

    def _last_uses(self) -> Mapping[int, list[TensorView]]:
        """Edges by the segment after which nothing reads them."""
        kept = {self.segmented.storage(tv) for tv in self._outputs()}
        last: dict[TensorView, int] = {}
        for position, segment in enumerate(self.segmented.segments):
            for tv in (*segment.inputs, *(s.target for s in segment.stores)):
                last[self.segmented.storage(tv)] = position
        released: dict[int, list[TensorView]] = {}
        for tv, position in last.items():
            if tv not in kept and tv not in self.arguments:
                released.setdefault(position, []).append(tv)
        return released

    def _separate_writes(self) -> None:
        """A target that overlaps another argument at run time must not be read through it: kernels
        read `T1_read`, which is a copy of T1 then."""
        targets = {w.target for w in self.segmented.fusion.writes}
        tensors = [a for a in self.arguments if isinstance(a, TensorView)]
        if not targets or len(tensors) < 2:
            return
        given = [self.names[tv] for tv in tensors]
        self.names |= {tv: f"{self.names[tv]}_read" for tv in tensors if tv not in targets}
        names = [self.names[tv] for tv in tensors]
        written = tuple(k for k, tv in enumerate(tensors) if tv in targets)
        self.lines.append(f"{', '.join(names)} = separate(({', '.join(given)}), {written})")

    def _return_to(self, given: Mapping[TensorView, str]) -> None:
        """What is returned is the given argument or a view of it, never of a copy for reading."""
        replaced = {tv for tv in self.arguments if isinstance(tv, TensorView)}
        replaced = {tv for tv in replaced if self.names[tv] != given[tv]}
        self.names = dict(given)
        self.defined -= {
            tv for tv in self.segmented.views if self.segmented.storage(tv) in replaced
        }


CPU_SCALAR = "cpu_scalar_"  # symbols for the values of zero-dimensional CPU tensors


def _scalar_function(scalar: Scalar, symbols: Sequence[sc.Symbol]) -> Callable[..., sc.Number]:
    def compute(*values: sc.Number) -> sc.Number:
        bound = sc.bind(scalar, dict(zip(symbols, values, strict=True)))
        assert isinstance(bound, sc.Constant)
        return bound.value

    return compute
