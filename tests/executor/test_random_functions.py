"""Random functions, as models are made of, and their gradients: as near to f64 as eager's."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from tests.devices import here, running_on
from tests.executor.jitted import jit
from tests.executor.random_functions import (
    LARGE,
    SMALL,
    RandomFunction,
    Shape,
    compiled,
    random_function,
)

FUNCTIONS, LARGE_FUNCTIONS = 8, 48
DTYPES = (torch.float32, torch.bfloat16, torch.bfloat16, torch.float16)


@pytest.mark.parametrize("number", range(FUNCTIONS))
def test_a_random_function_and_its_gradients_are_as_near_as_eagers(number: int) -> None:
    check_seed(_seed(), SMALL)


@pytest.mark.gpu
@pytest.mark.parametrize("number", range(LARGE_FUNCTIONS))
def test_a_random_function_of_large_tensors_is_as_near_as_eager(number: int) -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs a CUDA device")
    with running_on(torch.device("cuda")):
        check_seed(_seed(), LARGE)


def _seed() -> int:
    """A fresh one, or that to be repeated."""
    repeated = os.environ.get("FUNCTION_TEST_SEED")
    return random.SystemRandom().randrange(1 << 40) if repeated is None else int(repeated)


def check_seed(seed: int, shapes: Sequence[Shape]) -> None:
    made = random_function(seed, shapes)
    dtype = random.Random(seed).choice(DTYPES)
    try:
        _check(made, seed, dtype)
    except Exception as error:
        error.add_note(f"FUNCTION_TEST_SEED={seed} {dtype} {made.arguments}\n{made.text}")
        raise


def _check(made: RandomFunction, seed: int, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(seed)
    args = [
        _argument(name, shape, made, dtype, generator) for name, shape in made.arguments.items()
    ]
    rounded, exact = compiled(made, exact=False), compiled(made, exact=True)
    eager, cotangents = _passes(rounded, args, None)
    true, _ = _passes(exact, [a.double() if a.is_floating_point() else a for a in args], cotangents)
    ours, _ = _passes(jit(rounded), args, cotangents)
    assert [(t.dtype, t.shape) for t in ours] == [(t.dtype, t.shape) for t in eager]
    terms = max(tensor.numel() for tensor in args)
    for position, (got, theirs, want) in enumerate(zip(ours, eager, true, strict=True)):
        is_finite = want.isfinite() & theirs.isfinite()
        known = want.masked_fill(~is_finite, 0)
        errors = [(t.double() - want).masked_fill(~is_finite, 0).norm() for t in (got, theirs)]
        # What cancels in eager, rounded alike, is left here as large as its parts were rounded.
        rounding = torch.finfo(dtype).eps * (known.norm() + terms**0.5)
        where = f"{position} of results and gradients: {errors} of {known.norm()}"
        assert errors[0] <= 3 * errors[1] + 8 * rounding, where


def _argument(
    name: str, shape: Shape, made: RandomFunction, dtype: torch.dtype, generator: torch.Generator
) -> torch.Tensor:
    if name in made.limits:
        return torch.randint(made.limits[name], shape, generator=generator).to(here())
    return torch.randn(shape, generator=generator).to(dtype).to(here()).requires_grad_()


def _passes(
    function: Callable[..., Any],
    args: Sequence[torch.Tensor],
    cotangents: Sequence[torch.Tensor] | None,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Results and gradients of copies of the arguments; and cotangents, which are drawn if there
    are none yet."""
    copies = [a.detach().clone().requires_grad_(a.requires_grad) for a in args]
    results = tree_leaves(function(*copies))
    if cotangents is None:
        cotangents = [torch.randn_like(r) for r in results]
    given = [c.to(r.dtype) for c, r in zip(cotangents, results, strict=True)]
    wanted = [c for c in copies if c.requires_grad]
    found = torch.autograd.grad(results, wanted, given, allow_unused=True)
    gradients = [g if g is not None else torch.zeros(()) for g in found]
    return [t.detach() for t in (*results, *gradients)], list(cotangents)
