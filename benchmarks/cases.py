"""What a workload is: a name, a builder of cases, and the sizes that it is built in."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

Function: TypeAlias = Callable[..., Any]
Tensors: TypeAlias = tuple[torch.Tensor, ...]
Sizes: TypeAlias = Mapping[str, int]

FORWARD, BACKWARD, STEP, INFERENCE = "forward", "backward", "step", "inference"
PASSES = (FORWARD, BACKWARD)
DTYPE = torch.bfloat16
FROZEN = False  # as `gradient`: the input gets none


@dataclass(frozen=True)
class Case:
    """A workload on a device. Inputs that require a gradient get one, as do the parameters of a
    module; bytes are the least that each pass can move, None where nobody counts them.

    `liger` imports Liger's version, which takes the same inputs, or says why there is none.
    `replay` is given the outputs of a function that draws random numbers, and returns the same
    function with those draws. With `loss` the backward starts at the loss of the outputs. `calls`
    are the arguments of several calls that belong together, where that is what is measured.
    """

    function: Function
    inputs: Tensors
    forward_bytes: int | None = None
    backward_bytes: int | None = None
    liger: Callable[[], Function] | str = "Liger has no such op"
    replay: Callable[[Tensors], Function] | None = None
    loss: Callable[[Any], torch.Tensor] | None = None
    calls: tuple[Tensors, ...] = ()

    @property
    def wanted(self) -> Tensors:
        """What gradients are computed of."""
        found = [t for t in self.inputs if t.requires_grad]
        if isinstance(self.function, torch.nn.Module):
            found += [t for t in self.function.parameters() if t.requires_grad]
        return tuple(found)


@dataclass(frozen=True)
class Make:
    """Makes the tensors of a case: inputs of `dtype`, weights of `weight_dtype`."""

    device: torch.device
    dtype: torch.dtype
    weight_dtype: torch.dtype

    def random(self, *shape: int, gradient: bool = True) -> torch.Tensor:
        """From a normal distribution."""
        return torch.randn(shape, dtype=self.dtype, device=self.device, requires_grad=gradient)

    def weight(self, *shape: int) -> torch.Tensor:
        return torch.randn(shape, dtype=self.weight_dtype, device=self.device, requires_grad=True)

    def indices(self, limit: int, *shape: int) -> torch.Tensor:
        """Integers below `limit`."""
        return torch.randint(0, limit, shape, device=self.device)


@dataclass(frozen=True)
class Workload:
    """`build` takes a Make and the sizes by name. There is a case per entry of `sizes`; `quick` are
    the sizes that a host target can run. Where `is_dynamic`, one compiled function meets several
    shapes."""

    name: str
    build: Callable[..., Case]
    sizes: tuple[Sizes, ...]
    quick: tuple[Sizes, ...]
    dtype: torch.dtype = DTYPE
    weight_dtype: torch.dtype | None = None
    phases: tuple[str, ...] = PASSES
    is_dynamic: bool = False

    def chosen(self, is_quick: bool) -> tuple[Sizes, ...]:
        return self.quick if is_quick else self.sizes

    def case(self, device: torch.device, sizes: Sizes) -> Case:
        """Inputs are the same in every process: the seed is fixed."""
        torch.manual_seed(0)
        return self.build(Make(device, self.dtype, self.weight_dtype or self.dtype), **sizes)


def sizes_text(sizes: Sizes) -> str:
    """The sizes as a row tells them, such as `rows=33 columns=200`."""
    return " ".join(f"{name}={size}" for name, size in sizes.items())


def nbytes(*tensors: torch.Tensor) -> int:
    """Bytes of all elements."""
    return sum(t.numel() * t.element_size() for t in tensors)
