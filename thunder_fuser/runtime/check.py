"""Debug checks around each launch; every one waits for the launch. The program adds region and
segment to what they raise.

    nan      a result is not finite although all that was read is
    bounds   on the host: something outside a tensor was written, or decided a result
    eager    a result differs from what torch's ops compute for the segment

On CUDA `bounds` waits for each launch, so that an illegal access is reported for the segment that
made it; compute-sanitizer finds the ones that hit memory of another tensor.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.scalar import Constant
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.names import pointer_tensors
from thunder_fuser.runtime.bounds import guarded
from thunder_fuser.runtime.compilation import Launcher
from thunder_fuser.runtime.errors import CheckError, LaunchError
from thunder_fuser.runtime.evaluate import evaluate
from thunder_fuser.runtime.memory import tensor_at
from thunder_fuser.runtime.torch_segment import torch_fusion, torch_inputs, torch_outputs
from thunder_fuser.segment.segment import Segment

# Per dtype: the error against fp64 that is always allowed, relative to 1 + |value|. Beyond it, our
# error may be ALLOWED times that of torch's own ops.
_TOLERANCE = {
    torch.float8_e4m3fn: 0.13,
    torch.float8_e5m2: 0.26,
    torch.float16: 4e-3,
    torch.bfloat16: 3e-2,
    torch.float32: 2e-5,
    torch.float64: 1e-12,
    torch.complex64: 2e-5,
    torch.complex128: 1e-12,
}
ALLOWED = 4.0

Verify: TypeAlias = Callable[[], None]


@dataclass(frozen=True, eq=False)
class Check:
    """What the checks know of one segment. `names` are those of the printed fusion."""

    segment: Segment
    names: Mapping[TensorView, str]
    device: torch.device

    def around(self, mode: str, launch: Launcher) -> Launcher:
        """`launch` with the check `mode`: nan, bounds or eager."""
        if mode == "bounds" and self.device.type == "cpu":
            return guarded(self.segment, self.names, launch)
        before = {"nan": self._finite, "eager": self._equal_to_torch}.get(mode)

        def checked(stream: int, *values: Any) -> None:
            verify = before(values) if before is not None else None
            launch(stream, *values)
            self._wait()
            if verify is not None:
                verify()

        return checked

    def _wait(self) -> None:
        if self.device.type != "cuda":
            return
        try:
            torch.cuda.synchronize(self.device)
        except RuntimeError as error:
            raise LaunchError(f"the kernel failed while it ran: {error}") from error

    def _tensors(self, values: Sequence[Any]) -> dict[TensorView, torch.Tensor]:
        """What the launch's addresses point to."""
        return {
            tv: tensor_at(address, self.segment.layouts[tv], tv.dtype, self.device)
            for tv, address in zip(pointer_tensors(self.segment), values, strict=False)
        }

    def _scalars(self, values: Sequence[Any]) -> Sequence[Any]:
        return values[len(pointer_tensors(self.segment)) :]

    def _finite(self, values: Sequence[Any]) -> Verify | None:
        """What looks for a number that is not finite; None where there was one already."""
        memory = self._tensors(values)
        numbers = [v for v in self._scalars(values) if isinstance(v, (float, complex))]
        read = [memory[tv] for tv in self.segment.inputs]
        if not all(_is_finite(t) for t in read) or not all(math.isfinite(abs(n)) for n in numbers):
            return None
        is_bad = torch.isnan if _has_infinity(self.segment) else _not_finite

        def verify() -> None:
            for store in self.segment.stores:
                found = memory[store.target]
                bad = is_bad(found)
                if bad.any():
                    place = tuple(int(i) for i in bad.nonzero()[0])
                    raise CheckError(
                        f"{self.names[store.target]} has {int(bad.sum())} elements "
                        f"that are not finite, the first is {found[place].item()} at {place}; all "
                        "that the segment reads is finite"
                    )

        return verify

    def _equal_to_torch(self, values: Sequence[Any]) -> Verify:
        """What compares the results with those of torch's ops on copies of what is read."""
        memory = self._tensors(values)
        stored = list(torch_outputs(self.segment))
        stored += [s.target for s in self.segment.stores if s.is_in_place]
        part = torch_fusion(self.segment)

        def compute(dtype: torch.dtype | None) -> list[torch.Tensor]:
            copies = {tv: memory[tv].clone() for tv in torch_inputs(self.segment)}
            arguments = [*copies.values(), *self._scalars(values)]
            if dtype is None:
                made = evaluate(part, arguments)
                return [*made, *(copies[tv] for tv in stored[len(made) :])]
            written = tuple(w.value for w in part.writes)
            unwritten = Fusion(part.inputs, (*part.outputs, *written))
            return evaluate(unwritten, arguments, dtype=dtype)

        eager, exact = compute(None), compute(torch.float64)

        def verify() -> None:
            for tv, ours, theirs in zip(stored, eager, exact, strict=True):
                difference = _difference(memory[tv], ours, theirs)
                if difference is not None:
                    raise CheckError(f"{self.names[tv]} {difference}")

        return verify


def _has_infinity(segment: Segment) -> bool:
    """Whether the program itself writes an infinity, as masks do."""
    return any(
        isinstance(v, Constant) and not math.isfinite(abs(v.value))
        for tv in segment.made
        for v in (*tv.expr.inputs, *(attr for _, attr in tv.expr.attrs))
    )


def _not_finite(tensor: torch.Tensor) -> torch.Tensor:
    return ~torch.isfinite(_in_16_bits(tensor))


def _is_finite(tensor: torch.Tensor) -> bool:
    return not bool(_not_finite(tensor).any())


def _in_16_bits(tensor: torch.Tensor) -> torch.Tensor:
    """At least: torch asks no float8_e4m3fn whether it is finite."""
    return tensor.half() if tensor.dtype.itemsize == 1 and tensor.is_floating_point() else tensor


def _difference(found: torch.Tensor, eager: torch.Tensor, exact: torch.Tensor) -> str | None:
    """How a result differs from torch's, None where it does not."""
    tolerance = _TOLERANCE.get(found.dtype)
    if tolerance is None:  # integers and truth values: either rounding of what they came from
        bad = (found != eager) & (found != exact.to(found.dtype))
    else:
        wide = torch.complex128 if found.is_complex() else torch.float64
        target = exact.to(wide)
        ours, theirs = (found.to(wide) - target).abs(), (eager.to(wide) - target).abs()
        largest = theirs[torch.isfinite(theirs)].max() if torch.isfinite(theirs).any() else 0.0
        allowed = torch.clamp(tolerance * (1 + target.abs()), min=float(ALLOWED * largest))
        same = (found == eager) | (torch.isnan(found) & torch.isnan(eager))
        bad = ~same & ~(ours <= allowed)
    if not bad.any():
        return None
    place = tuple(int(i) for i in bad.nonzero()[0])
    return (
        f"differs from torch in {int(bad.sum())} of {found.numel()} elements, first at {place}: "
        f"{found[place].item()}, torch has {eager[place].item()}, in fp64 {exact[place].item()}"
    )
