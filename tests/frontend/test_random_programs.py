"""Random programs: printed, stored, hit and cut anywhere, they compute the same."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.frontend.fusions import copies, defined, example, new_cache, redefined
from thunder_fuser.frontend import DataType, FusionDefinition
from thunder_fuser.frontend.segmented_run import Segmented
from thunder_fuser.frontend.segments import segment_definitions

Value = tuple[Any, tuple[int, ...]]  # a handle and the sizes it will have


class Grower:
    """Grows a program op by op; every choice comes from `rng`."""

    def __init__(self, fd: FusionDefinition, rng: random.Random, inputs: list[Any]) -> None:
        self.fd, self.rng = fd, rng
        tensors = inputs[:-1]
        handles = example(fd, *tensors)
        self.inputs = handles
        self.values: list[Value] = [
            (h, tuple(t.shape)) for h, t in zip(handles, tensors, strict=True)
        ]
        self.scalar = fd.define_scalar(None, DataType.Double)

    def grow(self, steps: int) -> None:
        actions: list[Callable[[Any, tuple[int, ...]], Value]] = [
            self.unary,
            self.binary,
            self.reduce,
            self.turn,
            self.flatten,
            self.piece,
            self.double,
            self.scale,
            self.vary,
        ]
        for _ in range(steps):
            self.values.append(self.rng.choice(actions)(*self.rng.choice(self.values)))
        computed = self.values[len(self.inputs) :]
        fitting = [h for h, sizes in computed if sizes == self.values[0][1]]
        is_alias = fitting and self.rng.random() < 0.5
        for handle, _ in self.rng.sample(self.values, 3):
            # A view of a target shows the new value in one program, the old in another.
            self.fd.add_output(self.fd.ops.sin(handle) if is_alias else handle)
        if is_alias:
            self.fd.add_output(self.rng.choice(fitting), alias_input=self.inputs[0])

    def unary(self, x: Any, sizes: tuple[int, ...]) -> Value:
        return getattr(self.fd.ops, self.rng.choice(["neg", "sin", "tanh"]))(x), sizes

    def binary(self, x: Any, sizes: tuple[int, ...]) -> Value:
        partners = [h for h, other in self.values if other == sizes]
        return self.fd.ops.add(x, self.rng.choice(partners)), sizes

    def reduce(self, x: Any, sizes: tuple[int, ...]) -> Value:
        dim = self.rng.randrange(len(sizes))
        return self.fd.ops.sum(x, [dim], keepdim=True), (*sizes[:dim], 1, *sizes[dim + 1 :])

    def turn(self, x: Any, sizes: tuple[int, ...]) -> Value:
        return self.fd.ops.permute(x, [1, 0]), sizes[::-1]

    def flatten(self, x: Any, sizes: tuple[int, ...]) -> Value:
        return self.fd.ops.reshape(x, [x.size(1), x.size(0)]), sizes[::-1]

    def piece(self, x: Any, sizes: tuple[int, ...]) -> Value:
        if sizes[0] < 2:
            return x, sizes
        return self.fd.ops.slice(x, [1, 0], x.shape()), (sizes[0] - 1, sizes[1])

    def double(self, x: Any, sizes: tuple[int, ...]) -> Value:
        return self.fd.ops.cat([x, self.fd.ops.neg(x)], 1), (sizes[0], 2 * sizes[1])

    def scale(self, x: Any, sizes: tuple[int, ...]) -> Value:
        return x * (self.scalar + x.size(0) * 2), sizes

    def vary(self, x: Any, sizes: tuple[int, ...]) -> Value:
        variance, mean = self.fd.ops.var_mean(x, [0], correction=0, keepdim=True)
        return self.rng.choice([variance, mean]), (1, sizes[1])


def program(seed: int, inputs: list[Any]) -> Callable[[FusionDefinition], None]:
    return lambda fd: Grower(fd, random.Random(seed), inputs).grow(12)


def some_partition(fd: FusionDefinition, rng: random.Random) -> list[list[Any]]:
    """Runs of the order of computation: they never wait for each other."""
    tensors = [tv for tv in fd.leaf.fusion.tensors if tv.definition is not None]
    groups: list[list[Any]] = [[]]
    for tv in tensors:
        if groups[-1] and rng.random() < 0.4:
            groups.append([])
        groups[-1].append(tv)
    rng.shuffle(groups)
    return groups


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    pairs = zip(left, right, strict=True)
    return all(torch.equal(a.nan_to_num(), b.nan_to_num()) for a, b in pairs)


@pytest.mark.parametrize("seed", range(40))
def test_a_random_program_survives_printing_loading_and_cutting(seed: int, tmp_path: Any) -> None:
    rng = random.Random(seed)
    shape = rng.choice([(3, 5), (4, 4), (1, 6)])
    inputs = [torch.randn(shape), torch.randn(shape[::-1]).t(), torch.randn(shape), 0.75]
    cache = new_cache()
    fd = defined(program(seed, inputs), cache)
    reference_inputs = copies(inputs)
    reference = [r.clone() for r in fd.execute(reference_inputs)]
    assert redefined(str(fd), cache).leaf is fd.leaf
    assert defined(program(seed, inputs), cache).leaf is fd.leaf
    segments = segment_definitions(fd.leaf, some_partition(fd, rng), cache)
    cache.serialize(tmp_path / "fusions")
    loaded = new_cache()
    loaded.deserialize(tmp_path / "fusions")
    count = loaded.num_fusions()
    again = defined(program(seed, inputs), loaded)
    assert loaded.num_fusions() == count
    runs: list[Any] = [again.execute]
    if segments:
        runs.append(Segmented(fd.leaf, segments).execute)
    for run in runs:
        given = copies(inputs)
        assert same(run(given), reference)
        assert same(given[:-1], reference_inputs[:-1])


def test_random_numbers_cross_segments_by_their_seed_and_offset() -> None:
    def define(fd: FusionDefinition) -> None:
        x = fd.define_tensor([-1, 5], contiguity=True)
        noise = fd.ops.rand_like(fd.ops.neg(x))
        fd.add_output(fd.ops.add(fd.ops.mul(x, noise), fd.ops.uniform(0.0, 1.0, [5])))

    fd = defined(define)
    groups = [[tv] for tv in fd.leaf.fusion.tensors if tv.definition is not None]
    segmented = Segmented(fd.leaf, segment_definitions(fd.leaf, groups, fd._cache))
    x = torch.randn(4, 5)
    torch.manual_seed(11)
    whole = fd.execute([x])
    torch.manual_seed(11)
    assert same(segmented.execute([x]), whole)
