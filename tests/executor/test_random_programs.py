"""Random programs of arithmetic, views, copies and in-place writes equal eager's results."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check

START = 4  # extent of both arguments' axes
PROGRAMS = 24


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("seed", range(PROGRAMS))
def test_a_random_program_equals_eager(seed: int) -> None:
    source = random_program(random.Random(seed))
    scope: dict[str, Callable[..., object]] = {}
    exec(source, {"torch": torch}, scope)
    options = {
        "fusion_type": ("consecutive", "dataflow")[seed % 2],
        "fuser_single_op": seed % 3 == 0,
        "fuser_shape_only": seed % 5 == 0,
    }
    torch.manual_seed(seed)
    args = [0.5 * torch.randn(START, START) for _ in range(2)]
    try:
        check(scope["program"], *args, **options)
    except AssertionError as error:
        raise AssertionError(f"{source}with {options}:\n{error}") from None


def random_program(rng: random.Random) -> str:
    """The text of a function of two square tensors: each line one op on values made before."""
    shapes: list[tuple[int, ...]] = [(START, START), (START, START)]
    lines = []
    for _ in range(rng.randint(3, 10)):
        text, shape = _line(rng, shapes)
        if shape is not None:
            text = f"v{len(shapes)} = {text}"
            shapes.append(shape)
        lines.append(text)
    outputs = ", ".join(f"v{rng.randrange(len(shapes))}" for _ in range(3))
    return "\n    ".join(["def program(v0, v1):", *lines, f"return {outputs}\n"])


def _line(rng: random.Random, shapes: list[tuple[int, ...]]) -> tuple[str, tuple[int, ...] | None]:
    """An expression and its shape, or a statement and None."""
    a = rng.randrange(len(shapes))
    shape = shapes[a]
    b = rng.choice([i for i, other in enumerate(shapes) if other == shape])
    views = [(f"v{a}.reshape(-1)", (torch.Size(shape).numel(),)), (f"v{a}[:2]", (2, *shape[1:]))]
    if len(shape) == 2:
        views.append((f"v{a}.t()", shape[::-1]))
    if shape[0] > 2:
        views.append((f"v{a}[1:]", (shape[0] - 1, *shape[1:])))
    return rng.choice(
        [
            (f"torch.{rng.choice(('sin', 'cos', 'tanh'))}(v{a})", shape),
            (f"v{a} {rng.choice('*+-')} v{b}", shape),
            (f"v{a}.{rng.choice(('add_', 'mul_', 'sub_'))}(v{b})", None),
            (f"v{a}.copy_(torch.sin(v{b}))", None),
            (f"v{a}.clone()", shape),
            (f"torch.cumsum(v{a}, 0)", shape),
            *rng.sample(views, 2),
        ]
    )
