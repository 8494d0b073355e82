"""Random functions, as models are made of, and their gradients: as near to f64 as eager's."""

from __future__ import annotations

import os
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch.utils._pytree import tree_leaves

from tests.devices import copies, running_on
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
    print(f"FUNCTION_TEST_SEED={seed}", flush=True)  # where pytest captures nothing
    try:
        _check(made, seed, dtype)
    except Exception as error:
        error.add_note(f"FUNCTION_TEST_SEED={seed} {dtype} {made.arguments}\n{made.text}")
        raise


def _check(made: RandomFunction, seed: int, dtype: torch.dtype) -> None:
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    rounded, exact = compiled(made, exact=False), compiled(made, exact=True)
    jfn = jit(rounded, fuser_strict=rng.random() < 0.2)
    for is_again in range(rng.randint(1, 2)):  # in other layouts, with what caches have by then
        args = {
            name: _argument(name, shape, made, dtype, rng, generator)
            for name, shape in made.arguments.items()
        }
        # Of an argument given twice to what writes, Thunder's gradient is wrong.
        if is_again and rng.random() < 0.3 and not made.writes:
            first, second, *_ = args
            args[second] = args[first]
        with torch.backends.cudnn.flags(enabled=False):  # its batch norm wants aligned weights
            eager, cotangents = _passes(rounded, args, None, generator)
        wide = {id(a): a.double() if a.is_floating_point() else a for a in args.values()}
        widened = {name: wide[id(a)] for name, a in args.items()}
        true, _ = _passes(exact, widened, cotangents)
        _assert_near(_passes(jfn, args, cotangents)[0], eager, true, dtype, args)
    # Without gradients Thunder loses running statistics of arguments that want some.
    if rng.random() < 0.3 and not any(name[0] == "s" for name in made.arguments):
        with torch.no_grad():
            ours, _ = _passes(jfn, args, cotangents)
        _assert_near(ours, eager[: len(ours)], true[: len(ours)], dtype, args)


def _argument(
    name: str,
    shape: Shape,
    made: RandomFunction,
    dtype: torch.dtype,
    rng: random.Random,
    generator: torch.Generator,
) -> torch.Tensor:
    if name in made.limits:
        values = torch.randint(max(made.limits[name], 1), shape, generator=generator)
    else:
        wide = dtype if name[0] != "s" and rng.random() < 0.8 else torch.float32
        values = torch.randn(shape, generator=generator).to(wide)
    return rng.choice(LAYOUTS)(values, rng)


def _shifted(values: torch.Tensor, rng: random.Random) -> torch.Tensor:
    return values.new_empty(values.numel() + 1)[1:].view(values.shape).copy_(values)


def _turned(values: torch.Tensor, rng: random.Random) -> torch.Tensor:
    dims = rng.sample(range(values.ndim), values.ndim)
    back = [dims.index(d) for d in range(values.ndim)]
    return values.permute(dims).contiguous().permute(back)


def _apart(values: torch.Tensor, rng: random.Random) -> torch.Tensor:
    """Every second element, or a piece of longer rows."""
    if not values.ndim:
        return values
    *outer, size = values.shape
    place = rng.choice((slice(None, None, 2), slice(1, size + 1), slice(0, size)))
    return values.new_empty((*outer, 2 * size + (not size)))[..., place][..., :size].copy_(values)


LAYOUTS: tuple[Callable[[torch.Tensor, random.Random], torch.Tensor], ...] = (
    lambda values, rng: values, lambda values, rng: values, _shifted, _turned, _apart,
)  # fmt: skip


def _passes(
    function: Callable[..., Any],
    args: Mapping[str, torch.Tensor],
    cotangents: Sequence[torch.Tensor] | None,
    generator: torch.Generator | None = None,
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Results, what was written, and gradients, of copies of the arguments; and cotangents, which
    are drawn if there are none yet."""
    given = dict(zip(args, copies(list(args.values())), strict=True))
    same = {id(a): given[name] for name, a in args.items()}
    given = {name: same[id(a)] for name, a in args.items()}
    wanted = [c for name, c in given.items() if name[0] in "vw"]
    for c in wanted:
        c.requires_grad_()
    results = tree_leaves(function(*given.values()))
    if cotangents is None:
        cotangents = [torch.randn(r.shape, generator=generator) for r in results]
    found = [r.detach().clone() for r in results]
    states = [c.clone() for name, c in given.items() if name[0] == "s"]
    pairs = [(r, c.to(r)) for r, c in zip(results, cotangents, strict=True) if r.requires_grad]
    if not pairs or not torch.is_grad_enabled():
        return [*found, *states], list(cotangents)
    outputs, weights = zip(*pairs, strict=True)
    gradients = torch.autograd.grad(outputs, wanted, weights, allow_unused=True)
    known = [
        torch.zeros_like(c) if g is None else g for c, g in zip(wanted, gradients, strict=True)
    ]
    return [*found, *states, *known], list(cotangents)


def _assert_near(
    ours: Sequence[torch.Tensor],
    eager: Sequence[torch.Tensor],
    true: Sequence[torch.Tensor],
    dtype: torch.dtype,
    args: Mapping[str, torch.Tensor],
) -> None:
    assert [(t.dtype, t.shape) for t in ours] == [(t.dtype, t.shape) for t in eager]
    terms = max(tensor.numel() for tensor in args.values())
    for position, (got, theirs, want) in enumerate(zip(ours, eager, true, strict=True)):
        is_finite = want.isfinite() & theirs.isfinite()
        known = want.masked_fill(~is_finite, 0)
        errors = [(t.double() - want).masked_fill(~is_finite, 0).norm() for t in (got, theirs)]
        # What cancels in eager, rounded alike, is left here as large as its parts were rounded.
        rounding = torch.finfo(dtype).eps * (known.norm() + terms**0.5)
        where = f"{position} of results and gradients: {errors} of {known.norm()}"
        assert errors[0] <= 3 * errors[1] + 12 * rounding, where
