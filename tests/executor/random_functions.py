"""Random differentiable functions of torch, as models are made of: norms, softmaxes, activations,
gates, views, pieces, reductions that come back to their rows, tables."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

Shape = tuple[int, ...]
# Elements of what a function begins with: rows that a warp, a block, a cluster holds, odd and even.
SMALL: tuple[Shape, ...] = ((2, 3, 8), (3, 5, 7), (1, 6, 16), (4, 12), (2, 4, 6, 6))
LARGE: tuple[Shape, ...] = (
    (4, 64, 1024), (2, 129, 577), (16, 16, 4096), (5, 50257), (3, 65536), (64, 100, 96),
    (512, 7, 49), (9, 4097), (1, 333, 1000), (2, 8, 128, 128), (3, 16, 37, 41), (8, 24, 28, 28),
    (1000, 12, 20), (7, 100001),
)  # fmt: skip
ONE_OPERAND = (
    "F.gelu", "F.silu", "torch.tanh", "torch.sigmoid", "F.relu", "F.softplus", "torch.cos",
)  # fmt: skip
TWO_OPERANDS = (
    "{a} + {b}", "{a} * {b}", "{a} - {b}", "torch.where({a} > 0, {a}, {b})",
    "torch.maximum({a}, {b})", "F.silu({a}) * {b}",
)  # fmt: skip
REDUCTIONS = (
    "sum({dim}, keepdim=True) / {size}", "mean({dim}, keepdim=True)", "amax({dim}, keepdim=True)",
    "var({dim}, keepdim=True, correction=0)",
)  # fmt: skip


@dataclass
class RandomFunction:
    """The text of a function, line by line, and the shapes of its values. Its arguments are
    tensors to begin with, `v`, weights, `w`, and indices below `limits`, `i`."""

    lines: list[str] = field(default_factory=list)
    arguments: dict[str, Shape] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)

    @property
    def text(self) -> str:
        return "\n    ".join([f"def function({', '.join(self.arguments)}):", *self.lines]) + "\n"

    def value(self, expression: str, shape: Shape) -> str:
        name = f"t{len(self.lines)}"
        self.lines.append(f"{name} = {expression}")
        self.shapes[name] = shape
        return name

    def argument(self, kind: str, shape: Shape) -> str:
        name = f"{kind}{len(self.arguments)}"
        self.arguments[name] = shape
        return name


def random_function(seed: int, shapes: Sequence[Shape]) -> RandomFunction:
    rng, made = random.Random(seed), RandomFunction()
    start = rng.choice(shapes)
    for _ in range(2):
        name = made.argument("v", start)
        made.shapes[name] = start
    for _ in range(rng.randint(2, 9)):
        name = rng.choice(list(made.shapes)[-4:])
        rng.choice(STEPS)(rng, made, name, made.shapes[name])
    names = list(made.shapes)
    outputs = {names[-1], *rng.sample(names, 1)} - set(made.arguments)
    made.lines.append(f"return {', '.join(sorted(outputs)) or names[-1] + ' * 2'}")
    return made


def _elementwise(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    made.value(f"{rng.choice(ONE_OPERAND)}({a})", shape)


def _pair(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    b = rng.choice([name for name, other in made.shapes.items() if other == shape])
    made.value(rng.choice(TWO_OPERANDS).format(a=a, b=b), shape)


def _weighted(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    kept = [size if rng.random() < 0.5 else 1 for size in shape]
    w = made.argument("w", tuple(kept))
    made.value(f"{a} {rng.choice('+*')} {w}", shape)


def _norm(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    w, size = made.argument("w", shape[-1:]), shape[-1]
    if rng.random() < 0.5:
        bias = made.argument("w", shape[-1:])
        given = f"like({w}, {a}), {rng.choice(('None', f'like({bias}, {a})'))}"
        made.value(f"F.layer_norm({a}, ({size},), {given})", shape)
    else:
        wide = f"wide({a})"
        made.value(
            f"like({wide} * torch.rsqrt({wide}.square().mean(-1, keepdim=True) + 1e-5), {a}) * {w}",
            shape,
        )


def _softmax(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    dim = rng.choice([-1, -1, -1, *range(len(shape))])
    made.value(f"F.{rng.choice(('softmax', 'log_softmax'))}({a}, {dim})", shape)


def _grouped(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """Normalised over groups of channels of a sample, or over all samples."""
    if len(shape) < 3 or prod(shape[2:]) < 2:
        return
    w, bias = (made.argument("w", shape[1:2]) for _ in range(2))
    given = f"like({w}, {a}), like({bias}, {a})"
    groups = [g for g in (1, 2, 4, 7, 16) if shape[1] % g == 0]
    if rng.random() < 0.7:
        made.value(f"F.group_norm({a}, {rng.choice(groups)}, {given})", shape)
    else:
        made.value(f"F.batch_norm({a}, None, None, {given}, True)", shape)


def _logarithm(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """Of a row's sum of exponentials, or its length."""
    dim = rng.choice([-1, -1, *range(len(shape))])
    names = ("torch.logsumexp({}, {}", "torch.linalg.vector_norm({}, 2, {}")
    of_rows = rng.choice(names).format(a, dim)
    made.value(f"{a} {rng.choice('-*')} {of_rows}, keepdim=True)", shape)


def _repeated(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """Heads that several share, or rows beside each other."""
    if prod(shape) > 1 << 19 or len(shape) > 4:
        return
    dim, kind = rng.randrange(len(shape)), rng.choice(("repeat", "stack", "expand"))
    more = (*shape[:dim], 2, *shape[dim:])
    if kind == "repeat":
        twice = (*shape[:dim], 2 * shape[dim], *shape[dim + 1 :])
        made.value(f"{a}.repeat_interleave(2, {dim})", twice)
    elif kind == "stack":
        made.value(f"torch.stack(({a}, torch.sigmoid({a})), {dim})", more)
    else:
        made.value(f"{a}.unsqueeze({dim}).expand({', '.join(map(str, more))})", more)


def _picked(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """An element of each row, or a loss of them, beside the rows. Its logits are small: of those
    of hundreds, in 16 bits, eager's rounding alone is as large as an exponential's reach."""
    if shape[-1] < 4 or len(shape) < 2:
        return
    i = made.argument("i", (*shape[:-1], 1))
    made.limits[i] = shape[-1]
    if rng.random() < 0.5:
        made.value(f"{a} - torch.gather({a}, -1, {i})", shape)
    else:
        rows = f"(4 * torch.tanh(wide({a}))).reshape(-1, {shape[-1]})"
        ones = ", ".join("1" for _ in shape)  # on CPUs Thunder has no gradient of a 0-d factor
        loss = f"F.cross_entropy({rows}, {i}.reshape(-1)).reshape({ones})"
        made.value(f"{a} * like({loss}, {a})", shape)


def _reduced(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """Of rows, columns or both, which comes back to what it was reduced from."""
    dims = sorted(rng.sample(range(len(shape)), rng.choice([1, 1, 1, 2])))
    size = prod(shape[d] for d in dims)
    text = rng.choice(REDUCTIONS).format(dim=tuple(dims), size=max(size, 1))
    made.value(f"{a} {rng.choice('-*+')} {a}.{text}", shape)


def _turned(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    dims = rng.sample(range(len(shape)), len(shape))
    turned = made.value(f"{a}.permute({', '.join(map(str, dims))})", tuple(shape[d] for d in dims))
    if rng.random() < 0.3:
        made.value(f"{turned}.contiguous()", made.shapes[turned])


def _reshaped(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    if rng.random() < 0.5 and len(shape) > 2:
        at = rng.randrange(len(shape) - 1)
        other = (*shape[:at], shape[at] * shape[at + 1], *shape[at + 2 :])
    else:
        at = rng.randrange(len(shape))
        factor = next((f for f in rng.sample((2, 3, 4, 7, 8, 16), 6) if shape[at] % f == 0), 1)
        other = (*shape[:at], shape[at] // factor, factor, *shape[at + 1 :])
    if len(other) <= 5:
        made.value(f"{a}.reshape({', '.join(map(str, other))})", other)


def _pieces(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    dim = rng.randrange(len(shape))
    size = shape[dim]
    kind = rng.choice(("narrow", "halves", "roll", "pad", "flip", "cat"))
    if kind == "narrow" and size > 2:
        start = rng.randrange(size // 2)
        length = rng.randint(1, size - start)
        made.value(
            f"{a}.narrow({dim}, {start}, {length})", (*shape[:dim], length, *shape[dim + 1 :])
        )
    elif kind == "halves" and size % 2 == 0:
        half = (*shape[:dim], size // 2, *shape[dim + 1 :])
        first, second = (made.value(f"{a}.chunk(2, {dim})[{k}]", half) for k in range(2))
        made.value(f"F.silu({first}) * {second}", half)
    elif kind == "roll":
        made.value(f"torch.roll({a}, ({rng.randint(1, 3)},), ({dim},))", shape)
    elif kind == "pad":
        made.value(f"F.pad({a}, (1, 2))", (*shape[:-1], shape[-1] + 3))
    elif kind == "flip":
        made.value(f"torch.flip({a}, ({dim},))", shape)
    elif kind == "cat" and prod(shape) < 1 << 19:
        joined = (*shape[:dim], 2 * size, *shape[dim + 1 :])
        made.value(f"torch.cat((torch.tanh({a}), {a}), {dim})", joined)


def _gathered(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """Rows of a value by an index that all share."""
    if shape[0] < 2:
        return
    i = made.argument("i", (shape[0],))
    made.limits[i] = shape[0]
    made.value(f"torch.index_select({a}, 0, {i})", shape)


def _embedded(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    if len(shape) < 2:
        return
    table = made.argument("w", (37, shape[-1]))
    i = made.argument("i", shape[:-1])
    made.limits[i] = 37
    made.value(f"{a} + F.embedding({i}, {table})", shape)


def _scanned(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    dim = rng.choice([-1, -1, *range(len(shape))])
    made.value(f"like(torch.cumsum(wide({a}), {dim}) / {max(shape[dim], 1)}, {a})", shape)


def _rounded(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    made.value(f"{rng.choice(('wide', 'half'))}({a})", shape)


Step = Callable[[random.Random, RandomFunction, str, Shape], None]
STEPS: tuple[Step, ...] = (
    _elementwise, _elementwise, _pair, _pair, _pair, _weighted, _weighted, _norm, _norm, _softmax,
    _reduced, _reduced, _turned, _turned, _reshaped, _reshaped, _pieces, _pieces, _gathered,
    _embedded, _scanned, _rounded, _grouped, _logarithm, _repeated, _picked,
)  # fmt: skip


def compiled(made: RandomFunction, exact: bool) -> Callable[..., Any]:
    """The function; an exact one keeps f64 where the other rounds."""
    same = {"wide": lambda x: x, "half": lambda x: x, "like": lambda x, y: x}
    rounds = {
        "wide": lambda x: x.to(torch.float32),
        "half": lambda x: x.to(torch.bfloat16),
        "like": lambda x, y: x.to(y.dtype),
    }
    scope: dict[str, Any] = {
        "torch": torch,
        "F": torch.nn.functional,
        **(same if exact else rounds),
    }
    exec(made.text, scope)
    return scope["function"]  # type: ignore[no-any-return]
