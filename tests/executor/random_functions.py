"""Random differentiable functions of torch, as models are made of: norms, softmaxes, activations,
gates, views, pieces, reductions that come back to their rows, tables, losses, writes."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

Shape = tuple[int, ...]
# Elements of what a function begins with: rows that a warp, a block, a cluster holds, odd and even.
SMALL: tuple[Shape, ...] = (
    (2, 3, 8), (3, 5, 7), (1, 6, 16), (4, 12), (2, 4, 6, 6), (5, 1), (3, 4, 1), (1,), (), (0, 6),
    (3, 0, 4),
)  # fmt: skip
LARGE: tuple[Shape, ...] = (
    (4, 64, 1024), (2, 129, 577), (16, 16, 4096), (5, 50257), (3, 65536), (64, 100, 96),
    (512, 7, 49), (9, 4097), (1, 333, 1000), (2, 8, 128, 128), (3, 16, 37, 41), (8, 24, 28, 28),
    (1000, 12, 20), (7, 100001),
)  # fmt: skip
ONE_OPERAND = (
    "F.gelu({a})", "F.silu({a})", "torch.tanh({a})", "torch.sigmoid({a})", "F.relu({a})",
    "F.softplus({a})", "torch.cos({a})", "{a}.clamp(-0.5, 0.7)", "({a} + 300) / 2", "{a}.abs()",
    "F.dropout({a}, 0.0)", "F.elu({a})", "F.leaky_relu({a}, 0.1)", "F.mish({a})",
    "F.hardswish({a})", "F.logsigmoid({a})", "F.gelu({a}, approximate='tanh')",
    "torch.exp(-{a}.abs())", "{a}.pow(3) / 8", "torch.erf({a})", "{a}.detach() * {a}",
)  # fmt: skip
TWO_OPERANDS = (
    "{a} + {b}", "{a} * {b}", "{a} - {b}", "torch.where({a} > 0, {a}, {b})",
    "torch.maximum({a}, {b})", "F.silu({a}) * {b}", "{a}.masked_fill({b} > 0.5, 0.25)",
    "{a} / (1 + {b}.square())", "torch.lerp(wide({a}), wide({b}), 0.3)",
)  # fmt: skip
# Of rows along a dim, columns or both, which comes back to what it was reduced from.
REDUCTIONS = (
    "{a}.sum({dims}, keepdim=True) / {size}", "{a}.mean({dims}, keepdim=True)",
    "{a}.amax({dims}, keepdim=True)", "{a}.amin({dims}, keepdim=True)",
    "{a}.var({dims}, keepdim=True, correction=0)",
    "torch.var_mean({a}, {dims}, keepdim=True, correction=0)[1]",
)  # fmt: skip
SPREADS = (  # of two elements at least
    "{a}.var({dims}, keepdim=True)", "{a}.std({dims}, keepdim=True, correction=0)",
    "torch.var_mean({a}, {dims}, keepdim=True)[0]", "torch.std({a}, {dims}, keepdim=True)",
)  # fmt: skip
ALONG = (
    "F.softmax({a}, {dim})", "F.softmax({a}, {dim})", "F.log_softmax({a}, {dim})",
    "{a} - torch.logsumexp({a}, {dim}, keepdim=True)", "F.normalize({a}, dim={dim})",
    "{a} * torch.linalg.vector_norm({a}, 2, {dim}, keepdim=True)",
    "like(torch.cumsum(wide({a}), {dim}) / {size}, {a})",
    "like(torch.cumsum(wide({a}), {dim}) / {size}, {a})",
    "{a} * like((1 + torch.tanh(wide({a})) / {size}).prod({dim}, keepdim=True), {a})",
    "{a} + {a}.max({dim}, keepdim=True)[0]",
    "{a} - torch.gather({a}, {dim}, {a}.argmin({dim}, keepdim=True))",
    "{a} - {a}.clamp(-0.5, 0.5).amax({dim}, keepdim=True)",  # of equal elements
)  # fmt: skip
# By an argument, `v`, which is the same in f64: of what was rounded a place or a mask may be other.
GATES = (
    "{a} * (torch.argmax({v}, {dim}, keepdim=True) > {size} // 3)",
    "torch.where(({v} > 1).any({dim}, keepdim=True), {a}, -{a})",
    "{a}.masked_fill(({v} > -1).all({dim}, keepdim=True), 0.5)",
    "F.softmax({a}.masked_fill({v} < 0.3, float('-inf')), {dim}).nan_to_num()",
    "{a} - torch.gather({a}, {dim}, {v}.argmax({dim}, keepdim=True))",
)  # fmt: skip
GROUPED = (
    "F.group_norm({a}, {groups}, like({w}, {a}), like({bias}, {a}))",
    "F.group_norm({a}, {groups}, like({w}, {a}), like({bias}, {a}))",
    "F.batch_norm({a}, None, None, like({w}, {a}), like({bias}, {a}), True)",
    "F.batch_norm(wide({a}), {mean}, {variance}, wide({w}), wide({bias}), True, 0.2)",
    "F.batch_norm(wide({a}), {mean}, {variance}.square() + 0.5, wide({w}), wide({bias}), False)",
)  # fmt: skip
# Of images.
POOLED = (
    ("F.max_pool2d({a}, 2)", lambda h, w: (h // 2, w // 2)),
    ("F.max_pool2d({a}, 3, 2, 1)", lambda h, w: ((h + 1) // 2, (w + 1) // 2)),
    ("F.avg_pool2d({a}, 2)", lambda h, w: (h // 2, w // 2)),
    ("F.avg_pool2d({a}, 3, 1, 1)", lambda h, w: (h, w)),
    ("F.adaptive_avg_pool2d({a}, 1)", lambda h, w: (1, 1)),
    ("F.interpolate({a}, scale_factor=2, mode='nearest')", lambda h, w: (2 * h, 2 * w)),
    ("F.interpolate({a}, size=({h} + 3, {w} + 1), mode='bilinear')", lambda h, w: (h + 3, w + 1)),
    ("F.pad({a}, (1, 1, 1, 0), mode='reflect')", lambda h, w: (h + 1, w + 2)),
    ("F.pad({a}, (2, 1, 1, 0), mode='replicate')", lambda h, w: (h + 1, w + 3)),
)
# By an index of rows or of places along a dim.
LOOKED_UP = (
    "torch.index_select({a}, {dim}, {rows})", "{a}[{lead}{rows}]",
    "torch.gather({a}, {dim}, {places})", "torch.take_along_dim({a}, {places}, {dim})",
)  # fmt: skip
ADDED_AT = (
    "{a}.index_add({dim}, {rows}, {b})", "torch.index_put({a}, ({first},), {b}, accumulate=True)",
    "{a}.scatter_add({dim}, {places}, {b})",
    "torch.zeros_like({a}).scatter_add({dim}, {places}, {b})",
)  # fmt: skip
# Of rows of logits, and of two values; without the end of the call, which says what is returned.
CLASS_LOSSES = (
    "F.cross_entropy({rows}, {i}.reshape(-1)",
    "F.cross_entropy({rows}, {i}.reshape(-1), ignore_index=1",
    "F.cross_entropy({rows}, {i}.reshape(-1), label_smoothing=0.1",
    "F.cross_entropy({rows}, F.softmax({rows}.flip(-1), -1)",
    "F.cross_entropy({rows}.unsqueeze(0).mT, {i}.reshape(1, -1), ignore_index=2",
    "F.nll_loss(F.log_softmax({rows}, -1), {i}.reshape(-1)",
)  # fmt: skip
LOSSES = (
    "F.mse_loss({a}, {b}", "F.l1_loss({a}, {b}", "F.smooth_l1_loss({a}, {b}",
    "F.huber_loss({a}, {b}", "F.binary_cross_entropy_with_logits({a}, torch.sigmoid({b})",
    "F.kl_div(F.log_softmax({a}, -1), F.softmax({b}, -1)",
)  # fmt: skip
# Into a copy, and into what the caller gave.
WRITES = (
    "{t}.mul_({b})", "{t}.add_({b}, alpha=0.5)", "{t}.copy_({b})", "{t}.masked_fill_({b} > 0.5, 2)",
    "{t}[..., :1] = 0.5", "{t}[..., 1:] = {b}[..., 1:]", "{t}[:1] = {b}[:1] * 2",
)  # fmt: skip
STATE_WRITES = (
    "{s}.mul_(0.9).add_({a}, alpha=0.1)", "{s}.copy_({a})", "{s}.lerp_({a}, 0.1)", "{s}.add_(1)",
)  # fmt: skip


@dataclass
class RandomFunction:
    """The text of a function, line by line, and the shapes of its values. Its arguments are
    tensors to begin with, `v`, weights, `w`, indices below `limits`, `i`, and tensors of f32, `s`,
    that it may write and that have no gradient."""

    lines: list[str] = field(default_factory=list)
    arguments: dict[str, Shape] = field(default_factory=dict)
    limits: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    writes: bool = False

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
        of_this = made.shapes[name]
        kinds = ANYWHERE if prod(of_this) == 0 or not of_this else STEPS
        rng.choice(kinds)(rng, made, name, of_this)
    names = list(made.shapes)
    outputs = {names[-1], *rng.sample(names, 1)}
    made.lines.append(f"return {', '.join(sorted(outputs))}")
    return made


def _elementwise(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    made.value(rng.choice(ONE_OPERAND).format(a=a), shape)


def _pair(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    made.value(rng.choice(TWO_OPERANDS).format(a=a, b=_beside(rng, made, shape)), shape)


def _beside(rng: random.Random, made: RandomFunction, shape: Shape) -> str:
    return rng.choice([name for name, other in made.shapes.items() if other == shape])


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


def _along(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    dim = rng.choice([-1, -1, -1, *range(len(shape))])
    made.value(rng.choice(ALONG).format(a=a, dim=dim, size=shape[dim]), shape)


def _gated(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    dim, v = rng.randrange(len(shape)), made.argument("v", shape)
    made.value(rng.choice(GATES).format(a=a, v=v, dim=dim, size=shape[dim]), shape)


def _grouped(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """Normalised over groups of channels of a sample, or over all samples, of which the caller may
    keep means and variances."""
    if len(shape) < 3 or prod(shape[2:]) < 2:
        return
    text = rng.choice(GROUPED)
    kinds = {"w": "w", "bias": "w", **({"mean": "s", "variance": "s"} if "{mean}" in text else {})}
    given = {name: made.argument(kind, shape[1:2]) for name, kind in kinds.items()}
    groups = rng.choice([g for g in (1, 2, 4, 7, 16) if shape[1] % g == 0])
    made.value(text.format(a=a, groups=groups, **given), shape)


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


def _index(made: RandomFunction, shape: Shape, limit: int) -> str:
    i = made.argument("i", shape)
    made.limits[i] = limit
    return i


def _lost(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """A loss beside the rows that it is of. Its logits are small: of those of hundreds, in 16
    bits, eager's rounding alone is as large as an exponential's reach."""
    if shape[-1] < 4 or len(shape) < 2:
        return
    if rng.random() < 0.6:
        i = _index(made, shape[:-1], shape[-1])
        rows = f"(4 * torch.tanh(wide({a}))).reshape(-1, {shape[-1]})"
        call, each = rng.choice(CLASS_LOSSES).format(rows=rows, i=i), (*shape[:-1], 1)
    else:
        b = _beside(rng, made, shape)
        call, each = rng.choice(LOSSES).format(a=f"wide({a})", b=f"wide({b})"), shape
    reduction = rng.choice(("mean", "sum", "none"))
    # On CPUs Thunder has no gradient of a 0-d factor.
    back = ", ".join(map(str, each if reduction == "none" else [1] * len(shape)))
    scale = prod(shape) if reduction == "sum" else 1
    loss = f"({call}, reduction='{reduction}') / {scale}).reshape({back})"
    made.value(f"{a} * like({loss}, {a})", shape)


def _reduced(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    dims = sorted(rng.sample(range(len(shape)), min(len(shape), rng.choice([1, 1, 1, 2]))))
    size = prod(shape[d] for d in dims)
    text = rng.choice((*REDUCTIONS, *SPREADS) if size > 1 else REDUCTIONS)
    made.value(f"{a} {rng.choice('-*+')} {text.format(a=a, dims=tuple(dims), size=size)}", shape)


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
    kind = rng.choice(("narrow", "strided", "halves", "roll", "pad", "flip", "cat", "tril"))
    if kind == "narrow" and size > 2:
        start = rng.randrange(size // 2)
        length = rng.randint(1, size - start)
        made.value(
            f"{a}.narrow({dim}, {start}, {length})", (*shape[:dim], length, *shape[dim + 1 :])
        )
    elif kind == "strided" and size > 2:
        step, leading = rng.randint(2, 3), ":, " * dim
        made.value(
            f"{a}[{leading}1::{step}]", (*shape[:dim], len(range(1, size, step)), *shape[dim + 1 :])
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
    elif kind == "tril" and len(shape) > 1:
        made.value(f"torch.tril({a}, {rng.randint(-1, 1)})", shape)
    elif kind == "cat" and prod(shape) < 1 << 19:
        joined = (*shape[:dim], 2 * size, *shape[dim + 1 :])
        made.value(f"torch.cat((torch.tanh({a}), {a}), {dim})", joined)


def _looked_up(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """Rows or elements of a value by an index, more or fewer of them."""
    dim = rng.randrange(len(shape))
    size = max(1, rng.choice((shape[dim], shape[dim] // 2, min(2 * shape[dim], 64))))
    found = (*shape[:dim], size, *shape[dim + 1 :])
    text = rng.choice(LOOKED_UP)
    i = _index(made, found if "{places}" in text else (size,), shape[dim])
    made.value(text.format(a=a, dim=dim, lead=":, " * dim, rows=i, places=i), found)


def _added_at(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """A value, added where an index says, several to one place."""
    text, dim = rng.choice(ADDED_AT), rng.randrange(len(shape))
    dim = 0 if "{first}" in text else dim
    i = _index(made, shape if "{places}" in text else shape[dim : dim + 1], shape[dim])
    a, b, to = f"wide({a})", f"wide({_beside(rng, made, shape)})", a
    made.value(f"like({text.format(a=a, b=b, dim=dim, rows=i, places=i, first=i)}, {to})", shape)


def _pooled(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    if len(shape) != 4 or min(shape[2:]) < 3 or prod(shape) > 1 << 19:
        return
    text, sizes = rng.choice(POOLED)
    made.value(text.format(a=a, h=shape[2], w=shape[3]), (*shape[:2], *sizes(*shape[2:])))


def _multiplied(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """By a matrix, which another executor does; or scores of rows, and what they are weights of."""
    if len(shape) < 2 or shape[-1] > 256 or prod(shape) > 1 << 19:
        return
    if len(shape) == 4 and shape[-2] <= 256 and rng.random() < 0.5:
        asked = rng.choice(("", ", is_causal=True", ", scale=0.3"))
        b = _beside(rng, made, shape)  # torch's kernels do not ask whether memory is aligned
        given = f"torch.sin({a}), torch.tanh(like({b}, {a})), torch.tanh({a})"
        made.value(f"F.scaled_dot_product_attention({given}{asked})", shape)
    else:
        size = rng.choice((shape[-1], 8, 33))
        w = made.argument("w", (shape[-1], size))
        made.value(f"{a} @ like({w}, {a}) / {shape[-1]}", (*shape[:-1], size))


def _rotated(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """Halves of a head, by angles of each place."""
    if len(shape) < 2 or shape[-1] % 2:
        return
    cos, sin = (made.argument("w", shape[-2:]) for _ in "cs")
    first, second = (f"{a}[..., {s}]" for s in (f": {shape[-1] // 2}", f"{shape[-1] // 2} :"))
    made.value(f"{a} * {cos} + torch.cat((-{second}, {first}), -1) * {sin}", shape)


def _shrunk(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """To what rows or columns come to, which goes on by itself; or to a piece."""
    dim = rng.randrange(len(shape))
    rest = (*shape[:dim], *shape[dim + 1 :])
    kind = rng.choice(("mean", "amax", "norm", "softmax", "split", "glu"))
    if kind in ("mean", "amax"):
        made.value(f"{a}.{kind}({dim})", rest)
    elif kind == "norm":
        made.value(
            f"torch.linalg.vector_norm({a}, {rng.choice((1, 2))}, {dim}) / {shape[dim]}", rest
        )
    elif kind == "softmax":
        weights = f"F.softmax({_beside(rng, made, shape)}, {dim})"
        made.value(f"({a} * {weights}).sum({dim})", rest)
    elif kind == "glu" and shape[dim] % 2 == 0:
        made.value(f"F.glu({a}, {dim})", (*shape[:dim], shape[dim] // 2, *shape[dim + 1 :]))
    elif kind == "split" and shape[dim] > 3:
        size, part = shape[dim] // 3, rng.randrange(3)
        piece = (*shape[:dim], size, *shape[dim + 1 :])
        made.value(f"torch.split({a}, {size}, {dim})[{part}]", piece)


def _embedded(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    if len(shape) < 2:
        return
    table = made.argument("w", (37, shape[-1]))
    i = _index(made, shape[:-1], 37)
    padding = rng.choice(("", ", padding_idx=3"))
    made.value(f"{a} + F.embedding({i}, {table}{padding})", shape)


def _written(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    """In place: what was copied, which is read again; or what the caller gave."""
    made.writes = True
    if rng.random() < 0.6:
        b = _beside(rng, made, shape)
        copied = made.value(f"{a}.clone()", shape)
        made.lines.append(rng.choice(WRITES).format(t=copied, b=f"like({b}, {copied})"))
    else:
        s = made.argument("s", shape)
        made.lines.append(rng.choice(STATE_WRITES).format(s=s, a=f"like({a}, {s}).detach()"))
        made.value(f"{a} + {s}", shape)


def _rounded(rng: random.Random, made: RandomFunction, a: str, shape: Shape) -> None:
    made.value(f"{rng.choice(('wide', 'half'))}({a})", shape)


Step = Callable[[random.Random, RandomFunction, str, Shape], None]
ANYWHERE: tuple[Step, ...] = (_elementwise, _pair, _weighted, _rounded)
STEPS: tuple[Step, ...] = (
    _elementwise, _elementwise, _pair, _pair, _pair, _weighted, _weighted, _norm, _norm, _along,
    _along, _along, _reduced, _reduced, _turned, _turned, _reshaped, _reshaped, _pieces, _pieces,
    _looked_up, _added_at, _embedded, _rounded, _grouped, _repeated, _gated, _lost, _written,
    _pooled, _multiplied, _rotated, _shrunk, _shrunk,
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
