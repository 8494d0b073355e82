"""Random programs of shape ops, exact arithmetic, short and long sums, stops and in-place writes,
over arguments of every layout. All values are small integers, so that every order of additions
gives the same bits."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace
from math import prod

import torch

from tests.programs import (
    cat,
    expand,
    flip,
    fusion,
    ints,
    like,
    pad,
    permute,
    reshape,
    stop,
    total,
    unsqueeze,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.dtypes import TORCH_DTYPES

MAX_RANK = 7
DTYPES = (
    DataType.Float,
    DataType.BFloat16,
    DataType.Half,
    DataType.Int,
    DataType.Int32,
    DataType.Int8,
    DataType.Bool,
    DataType.Double,
    DataType.ComplexFloat,
)


@dataclass(frozen=True)
class Sizes:
    """Extents of axes, those with more terms than one thread sums, and the most elements."""

    short: tuple[int, ...]
    long: tuple[int, ...]
    elements: int


SMALL = Sizes((0, 1, 1, 2, 3, 4, 5, 6, 8, 12, 16), (33, 40, 100, 129, 256), 6000)
LARGE = Sizes(  # for a GPU: of rows that fill a block, a cluster, a machine
    (1, 1, 2, 3, 4, 5, 7, 8, 16, 32, 49, 64, 96, 100, 128, 129, 196, 257),
    (500, 513, 1000, 1024, 1335, 2048, 4096, 4097, 5000, 8192, 16384, 50257, 65536, 262144),
    1_500_000,
)
MEDIUM = replace(LARGE, elements=200_000)  # which the host runs in a moment


def argument(rng: random.Random, dtype: DataType, sizes: Sizes) -> torch.Tensor:
    """A tensor of some rank, sizes, strides and alignment: dense, permuted, sliced or expanded."""
    shape = [rng.choice(sizes.short) for _ in range(rng.choice([0, 1, 2, 2, 3, 3, 4, 5]))]
    if shape and rng.random() < 0.3:
        shape[rng.randrange(len(shape))] = rng.choice(sizes.long)
    while prod(shape) > sizes.elements // 2:
        shape.pop()
    kind = rng.choice(["dense", "shifted", "permuted", "sliced", "expanded", "cut"])
    values = small(rng, [n + 2 for n in shape], dtype)
    if kind == "dense" or not shape:
        return values[tuple(slice(0, n) for n in shape)].contiguous()
    if kind == "shifted":
        flat = small(rng, [prod(shape) + 3], dtype)
        return flat[rng.randint(1, 3) :][: prod(shape)].reshape(shape)
    if kind == "permuted":
        order = rng.sample(range(len(shape)), len(shape))
        inverse = [order.index(d) for d in range(len(shape))]
        return small(rng, [shape[d] for d in order], dtype).permute(inverse)
    if kind == "sliced":
        return values[tuple(slice(1, n + 1) for n in shape)]
    if kind == "expanded":
        dim = rng.randrange(len(shape))
        narrow = [1 if d == dim else n for d, n in enumerate(shape)]
        return small(rng, narrow, dtype).expand(shape)
    wide = small(rng, [2 * n for n in shape], dtype)
    return wide[tuple(slice(None, None, 2) for _ in shape)]


def small(rng: random.Random, shape: list[int], dtype: DataType) -> torch.Tensor:
    generator = torch.Generator().manual_seed(rng.randrange(1 << 30))
    values = torch.randint(-3, 4, shape, generator=generator)
    return values.to(TORCH_DTYPES[dtype])


@dataclass
class Program:
    """Grows a fusion op by op; every choice comes from `rng`."""

    rng: random.Random
    sizes: Sizes
    arguments: list[torch.Tensor] = field(default_factory=list)
    inputs: tuple[TensorView, ...] = ()
    values: list[TensorView] = field(default_factory=list)

    def grow(self, steps: int) -> None:
        for _ in range(steps):
            source = self.rng.choice(self.values[-4:])
            made = getattr(self, self.rng.choice(OPS))(source)
            if made is None or made.ndim > MAX_RANK or prod(made.shape) > self.sizes.elements:
                continue
            self.values.append(made)

    def slice(self, tv: TensorView) -> TensorView | None:
        starts, ends = [], []
        for size in tv.shape:
            start = self.rng.randint(0, size) if self.rng.random() < 0.4 else 0
            starts.append(start)
            ends.append(self.rng.randint(start, size) if self.rng.random() < 0.4 else size)
        steps = [self.rng.choice([1, 1, 1, 2, 3]) for _ in tv.shape]
        attrs = {"start_indices": ints(starts), "end_indices": ints(ends), "strides": ints(steps)}
        return call("slice", tv, **attrs) if tv.ndim else None

    def pad(self, tv: TensorView) -> TensorView | None:
        widths = []
        for size in reversed(tv.shape):
            least = -1 if size > 2 else 0
            touched = self.rng.random() < 0.6
            widths += [self.rng.randint(least, 3) if touched else 0 for _ in range(2)]
        return pad(tv, widths, self.rng.choice([0, 1])) if tv.ndim else None

    def cat(self, tv: TensorView) -> TensorView | None:
        if not tv.ndim:
            return None
        dim = self.rng.randrange(tv.ndim)
        parts = [tv, *self.rng.sample(self._like(tv, dim), 1), tv][: self.rng.randint(1, 3)]
        self.rng.shuffle(parts)
        return cat(*parts, dim=dim)

    def permute(self, tv: TensorView) -> TensorView:
        return permute(tv, *self.rng.sample(range(tv.ndim), tv.ndim))

    def reshape(self, tv: TensorView) -> TensorView | None:
        left, shape = prod(tv.shape), []
        if not left:
            return None
        while left > 1 and len(shape) < 4:
            shape.append(self.rng.choice([d for d in range(1, left + 1) if left % d == 0]))
            left //= shape[-1]
        return reshape(tv, *self.rng.sample([*shape, left], len(shape) + 1))

    def expand(self, tv: TensorView) -> TensorView:
        dim = self.rng.randint(0, tv.ndim)
        shape = [*tv.shape[:dim], self.rng.choice([1, 2, 3, 5]), *tv.shape[dim:]]
        return expand(unsqueeze(tv, dim), *shape)

    def flip(self, tv: TensorView) -> TensorView | None:
        dims = self.rng.sample(range(tv.ndim), self.rng.randint(1, tv.ndim)) if tv.ndim else []
        return flip(tv, *sorted(dims)) if dims else None

    def unary(self, tv: TensorView) -> TensorView | None:
        return None if tv.dtype is DataType.Bool else call("neg", tv)

    def binary(self, tv: TensorView) -> TensorView:
        """With a value of its sizes, or one that is broadcast to them."""
        fitting = [v for v in self.values if is_broadcast_to(v.shape, tv.shape)]
        other = self.rng.choice([*fitting, sc.constant(2)])
        return call("where", self._condition(tv), tv, other)

    def _condition(self, tv: TensorView) -> TensorView:
        return call("ne", tv, sc.constant(1))

    def total(self, tv: TensorView) -> TensorView | None:
        if tv.dtype in (DataType.Int8, DataType.Bool) or not tv.ndim:
            return None
        made = total(tv, *sorted(self.rng.sample(range(tv.ndim), self.rng.randint(1, tv.ndim))))
        limited = call(
            "cast", call("where", self._condition(made), made, sc.constant(0)), dtype=tv.dtype
        )
        return limited if self.rng.random() < 0.5 and not tv.dtype.is_reduced_precision else None

    def extrema(self, tv: TensorView) -> TensorView | None:
        """Those elements that are the largest or the smallest over some dims; others are 0."""
        if tv.dtype is DataType.Bool or tv.dtype.is_complex or not prod(tv.shape) or not tv.ndim:
            return None
        dims = sorted(self.rng.sample(range(tv.ndim), self.rng.randint(1, tv.ndim)))
        back = call(self.rng.choice(["max", "min"]), tv, dims=tuple(dims))
        for dim in dims:
            back = unsqueeze(back, dim)
        return call("where", call("eq", tv, expand(back, *tv.shape)), tv, sc.constant(0))

    def rows(self, tv: TensorView) -> TensorView | None:
        """Rows of `tv` at indices that another value, flattened, holds."""
        dims = [d for d, n in enumerate(tv.shape) if n]
        other = self.rng.choice(self.values)
        if not dims or 0 in other.shape:
            return None
        dim = self.rng.choice(dims)
        index = reshape(self._index(other, tv.shape[dim]), prod(other.shape))
        return call("index_select", tv, index, dim=dim)

    def along(self, tv: TensorView) -> TensorView | None:
        """Elements of `tv` at indices that it or its like holds."""
        dims = [d for d, n in enumerate(tv.shape) if n]
        if not dims:
            return None
        dim = self.rng.choice(dims)
        other = self.rng.choice(self._like(tv, dim))
        return call("take_along_axis", tv, self._index(other, tv.shape[dim]), dim=dim)

    def running(self, tv: TensorView) -> TensorView | None:
        """A running sum, kept small so that it is exact in any order."""
        if tv.dtype in (DataType.Int8, DataType.Bool) or tv.dtype.is_complex or not tv.ndim:
            return None
        dim = self.rng.choice([tv.ndim - 1, tv.ndim - 1, self.rng.randrange(tv.ndim)])
        made = call("cumsum", tv, dim=dim, reverse=self.rng.random() < 0.5)
        return call("cast", call("fmod", made, sc.constant(7)), dtype=tv.dtype)

    def _index(self, tv: TensorView, extent: int) -> TensorView:
        whole = call("cast", tv, dtype=DataType.Int)
        return call("fmod", call("abs", whole), sc.constant(extent))

    def full(self, tv: TensorView) -> TensorView:
        return call("full", sc.constant(1), shape=ints(tv.shape), dtype=tv.dtype)

    def stop(self, tv: TensorView) -> TensorView:
        return stop(tv)

    def _like(self, tv: TensorView, dim: int) -> list[TensorView]:
        """The values that can stand beside `tv` in a cat along `dim`."""

        def rest(v: TensorView) -> tuple[int, ...]:
            return v.shape[:dim] + v.shape[dim + 1 :]

        same = [v for v in self.values if v.ndim == tv.ndim and v.dtype is tv.dtype]
        return [v for v in same if rest(v) == rest(tv)]


def is_broadcast_to(shape: tuple[int, ...], other: tuple[int, ...]) -> bool:
    lead = len(other) - len(shape)
    return lead >= 0 and all(n in (1, m) for n, m in zip(shape, other[lead:], strict=True))


OPS = (
    "slice", "slice", "pad", "cat", "cat", "permute", "permute", "reshape", "reshape", "expand",
    "flip", "unary", "binary", "total", "full", "stop", "stop", "rows", "along", "running",
    "extrema", "extrema",
)  # fmt: skip


def random_fusion(
    seed: int, steps: int = 9, sizes: Sizes = SMALL
) -> tuple[Fusion, list[torch.Tensor]]:
    """A fusion of one to three outputs and up to two writes, and its arguments."""
    rng = random.Random(seed)
    dtype = rng.choice(DTYPES)
    arguments = [argument(rng, dtype, sizes) for _ in range(rng.randint(1, 3))]
    inputs = like(*arguments)
    program = Program(rng, sizes, arguments, inputs, list(inputs))
    program.grow(rng.randint(1, steps))
    outputs = rng.sample(program.values, min(len(program.values), rng.randint(1, 3)))
    writes = []
    for target, given in zip(inputs, arguments, strict=True):
        fitting = [v for v in program.values if v.shape == target.shape and v is not target]
        fitting = [v for v in fitting if v.dtype is target.dtype]
        if fitting and rng.random() < 0.5 and not has_overlap(given):
            writes.append((rng.choice(fitting[-3:]), target))
    return fusion(inputs, *outputs, writes=writes), arguments


def has_overlap(tensor: torch.Tensor) -> bool:
    """True where several indices name one element: such a tensor cannot be written in place."""
    pairs = zip(tensor.shape, tensor.stride(), strict=True)
    return any(n > 1 and s == 0 for n, s in pairs)
