"""Random programs of reductions over several axes, one after another: errors like those of eager.

Each step reduces what the one before made over axes of its own choice, so that what follows from
sums along rows, down columns and over planes meets in one region, forward and backward.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import prod

import pytest
import thunder
import torch

from tests.executor.judging import runs
from thunder_fuser import fuser

SIZES = (1, 2, 3, 5, 7, 8, 16, 17, 31, 33, 64, 65, 130, 257, 300)
ELEMENTS = range(4, 30000)
PROGRAMS = 6
STEPS = (
    "torch.tanh(y) * 0.7 + y * 0.3",
    "y * w + w",
    "torch.nn.functional.gelu(y)",
    "y - y.sum({dims}, keepdim=True) * 0.01",
    "y * torch.sigmoid(y.mean({dims}, keepdim=True))",
    "y - torch.amax(y, {dims}, keepdim=True)",
    "y * torch.rsqrt(y.var({dims}, keepdim=True, correction=0) + 0.5)",
    "(y - y.mean({dims}, keepdim=True)) / (y.var({dims}, keepdim=True, correction=0) + 1.0).sqrt()",
    "y - torch.logsumexp(y, {dims}, keepdim=True)",
    "torch.softmax(y, {dim}) * 3.0",
)
RESULTS = ("y", "y.sum({dims})", "torch.amax(y, {dims})")


@pytest.mark.sanitizer
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_errors_are_like_those_of_eager(seed: int, device: torch.device) -> None:
    check(seed, device)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("few_multiprocessors")
@pytest.mark.parametrize("seed", range(PROGRAMS, 2 * PROGRAMS))
def test_they_are_on_a_machine_that_small_tensors_fill(seed: int, device: torch.device) -> None:
    check(seed, device)


def check(seed: int, device: torch.device) -> None:
    """The result and the gradients of a random program, on values that another run finds again:
    which of two that are nearly the largest is the larger, rounding decides."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    shape = _shape(rng)
    source = random_program(rng, len(shape))
    scope: dict[str, Callable[..., torch.Tensor]] = {}
    exec(source, {"torch": torch}, scope)
    dtype = rng.choice([torch.float32, torch.float32, torch.bfloat16])
    x = torch.randn(shape, dtype=dtype, generator=generator)
    some = [size if rng.random() < 0.5 else 1 for size in shape]
    w = torch.randn(some, dtype=dtype, generator=generator)
    program = scope["program"]
    cotangent = torch.randn(program(x, w).shape, dtype=dtype, generator=generator)
    exact = runs(program, [x.double(), w.double()], cotangent)
    eager = runs(program, [x, w], cotangent)
    found = runs(thunder.jit(program, executors=[fuser]), [x, w], cotangent, device)
    eps = torch.finfo(dtype).eps
    sums = torch.finfo(torch.float32).eps * x.numel() ** 0.5  # of terms around 1 that cancel
    for name, value, theirs, ours in zip("yxw", exact, eager, found, strict=True):
        allowed = 4 * (theirs - value).abs().max() + 128 * eps * value.abs().max() + eps + 4 * sums
        error = (ours - value).abs().max()
        assert error <= allowed, f"{source}of {dtype} {shape}: {name} is {error:.3g} off"


def random_program(rng: random.Random, rank: int) -> str:
    """The text of a function of a tensor and of a weight that is broadcast to it."""
    chosen = [*rng.choices(STEPS, k=rng.randint(2, 4)), rng.choice(RESULTS)]
    filled = [text.format(dims=_dims(rng, rank), dim=rng.randrange(rank)) for text in chosen]
    lines = [f"y = {text}" for text in ("x * (1.0 + 0.1 * w)", *filled)]
    return "\n    ".join(["def program(x, w):", *lines, "return y\n"])


def _dims(rng: random.Random, rank: int) -> tuple[int, ...]:
    return tuple(sorted(rng.sample(range(rank), rng.randint(1, max(rank - 1, 1)))))


def _shape(rng: random.Random) -> list[int]:
    while True:
        shape = rng.choices(SIZES, k=rng.randint(2, 4))
        if prod(shape) in ELEMENTS:
            return shape
