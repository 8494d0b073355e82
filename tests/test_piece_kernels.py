"""Rows made of pieces, cats, pads and slices of each other, whole or cut: the bits are eager's."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import cat, chain, check, cuda_kernels, fusion, pad, permute, piece
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.runtime.dtypes import TORCH_DTYPES

KINDS = ("source", "cat", "cat", "cat", "table", "sum", "pad", "neg")
pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


class Rows:
    """A program of some planes and rows, whose pieces are multiples of a granule, most of them."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)
        self.dtype = self.draw.choice([DataType.Float, DataType.BFloat16])
        self.granule = self.draw.choice([4, 8, 8, 12, 16, 20])
        self.width = self.granule * self.draw.randint(2, 8)
        self.planes = self.draw.choice([2, 3, 5]), self.draw.choice([1, 4, 7])
        self.inputs = [self._input(*self.planes, self.width) for _ in range(2)]
        self.tables: dict[int, TensorView] = {}

    def program(self) -> Fusion:
        made = [chain(self._row(self.width, 3), "neg") for _ in range(self.draw.randint(1, 2))]
        if self.draw.random() < 0.3:
            made[0] = permute(made[0], 1, 0, 2)
        return fusion([*self.inputs, *self.tables.values()], *made)

    def _input(self, *shape: int) -> TensorView:
        made: TensorView = tensor(self.dtype, *shape)
        return made

    def _row(self, width: int, depth: int) -> TensorView:
        kind = self.draw.choice(KINDS) if depth else "source"
        match kind:
            case "cat":
                cuts = [0, *self._cuts(width), width]
                return cat(*(self._row(b - a, depth - 1) for a, b in pairwise(cuts)), dim=2)
            case "table":
                table = self.tables.setdefault(width, self._input(self.planes[1], width))
                return call("mul", self._row(width, depth - 1), table)
            case "sum":
                return call("add", *(self._row(width, depth - 1) for _ in range(2)))
            case "neg":
                return chain(self._row(width, depth - 1), "neg")
            case "pad" if width > self.granule:
                left = self.granule * self.draw.randrange(width // self.granule)
                fill = self.draw.choice([0.0, -2.0])
                return pad(self._row(width - left, depth - 1), [left, 0], fill)
        return self._source(width)

    def _cuts(self, width: int) -> Sequence[int]:
        granules = self.granule * self.draw.randint(1, max(width // self.granule, 1))
        found = {self.draw.choice([granules, width // 2, width // 4]) for _ in range(2)}
        return sorted(cut for cut in found if 0 < cut < width)

    def _source(self, width: int) -> TensorView:
        start = self.draw.randint(0, self.width - width)
        start -= self.draw.choice([0, start % self.granule, start % self.granule])
        return piece(self.draw.choice(self.inputs), 2, start, start + width)


def arguments(program: Fusion) -> list[torch.Tensor]:
    tensors = [v for v in program.inputs if isinstance(v, TensorView)]
    return [torch.randn(tv.shape).to(TORCH_DTYPES[tv.dtype]) for tv in tensors]


@pytest.mark.parametrize("seed", random.Random(5).sample(range(1 << 20), 48))
def test_rows_of_pieces_have_the_bits_of_eager(seed: int) -> None:
    program = Rows(seed).program()
    check(program, *arguments(program))


@pytest.mark.parametrize("dtype", [DataType.BFloat16, DataType.Float, DataType.Double])
@pytest.mark.parametrize("columns", [257, 131, 139, 67, 34])
def test_halves_of_odd_rows_are_stored_by_threads_side_by_side(
    columns: int, dtype: DataType
) -> None:
    """The gradients of both factors, and a zero between them."""
    half = columns // 2
    x, g = tensor(dtype, 37, columns), tensor(dtype, 37, half)
    low, high = piece(x, 1, 0, half), piece(x, 1, columns - half, columns)
    first = pad(call("mul", g, chain(high, "abs")), [0, columns - half])
    second = pad(call("mul", g, chain(low, "neg")), [columns - half, 0])
    program = fusion([x, g], call("add", first, second))
    plan = check(program, *arguments(program), orders=ORDERS)
    assert "load_lanes" in plan.sources[0]


def test_short_rows_are_one_body_and_leave_out_the_loads_of_others() -> None:
    x, table = tensor(DataType.Float, 64, 32), tensor(DataType.Float, 8)
    part = piece(x, 1, 0, 8)
    made = cat(call("mul", part, call("add", table, part)), piece(x, 1, 8, 32))
    program = fusion([x, table], made)
    check(program, *arguments(program))
    _, (kernel,) = cuda_kernels(program, *arguments(program))
    ((body,),) = kernel.groups
    assert [len(load.guards) for load in body.loads] == [0, 1]


def test_the_negative_of_a_negative_number() -> None:
    """As the fill of a pad it is a literal behind a minus."""
    x = tensor(DataType.Float, 24)
    program = fusion([x], chain(pad(x, [0, 8], -2.0), "neg"))
    check(program, *arguments(program))
