"""Accesses through squares in shared memory: the body, and results bit for bit."""

from __future__ import annotations

import random
import re
from math import prod
from textwrap import dedent

import pytest
import torch

from tests.devices import ORDERS, here
from tests.kernel.interpreted import walk
from tests.kernel.test_lower import body_of, kernel_of
from tests.pairwise import with_halves
from tests.programs import (
    chain,
    check,
    expand,
    fusion,
    images,
    like,
    patches,
    permute,
    piece,
    swapped,
    unsqueeze,
)
from tests.schedule.segments import halves, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options

PATCHED = [  # images, and the sides of a patch; of fewer channels slabs would have two orders
    (2, 64, 14, 14, 2, 2),
    (1, 331, 12, 20, 3, 5),
    (3, 40, 7, 14, 7, 7),
    (1, 327, 16, 9, 4, 3),
    (1, 800, 3, 43, 3, 1),
    (5, 24, 14, 28, 14, 14),
]


def test_squares_are_filled_before_and_emptied_after_the_values() -> None:
    x, y = halves(192, 128), halves(128, 192)
    added = call("add", permute(x, 1, 0), y)
    segment = segment_of([x, y], added, chain(permute(added, 1, 0), "neg"))
    assert body_of(segment) == dedent("""\
        v0 = load T2[192*i0 + 8*i1], 8 x bf16, 16 bytes at a time
        t0 = turn T0[128*i1 + 8*i0], 8 x bf16, 16 bytes at a time
        T2_0: f32 = v0[k][1*lane + 0]
        T0_0: f32 = t0[vector + lane, row]
        T3_0: f32 = add(T0_0, T2_0)
        T5_0: f32 = neg(T3_0)
        t1[vector + lane, row] = T5_0
        w0[1*lane + 0] = T3_0
        store w0 -> T3[192*i0 + 8*i1], 8 x bf16, 16 bytes at a time
        turn t1 -> T5[128*i1 + 8*i0], 8 x bf16, 16 bytes at a time""")


@pytest.mark.parametrize("extents", [(64, 64), (100, 36), (33, 70), (17, 129), (336, 331)])
def test_every_element_is_read_and_written_once(extents: tuple[int, int]) -> None:
    x = halves(*extents)
    found = walk(kernel_of(segment_of([x], chain(permute(x, 1, 0), "neg"))))
    everything = set(range(extents[0] * extents[1]))
    assert found.misaligned == []
    assert found.read["T0"] == everything
    assert found.written["T2"] == dict.fromkeys(everything, 1)


def test_rows_begin_at_digits_of_a_run() -> None:
    x = halves(3, 64, 28, 28)
    assert body_of(segment_of([x], chain(patches(x, 2, 2), "neg"))) == dedent("""\
        t0 = turn T0[50176*i0 + 784*i2 + 8*i1], 8 x bf16, 16 bytes at a time
        T0_0: f32 = t0[vector + lane, row]
        T4_0: f32 = neg(T0_0)
        w0[1*lane + 0] = T4_0
        store w0 -> T4[50176*i0 + 3584*(i1/56) + 256*((i1/2)%14) + 128*((i1/28)%2) + 64*(i1%2) + \
8*i2], 8 x bf16, 16 bytes at a time""")


@pytest.mark.parametrize("extents", PATCHED, ids=str)
def test_every_element_of_patches_is_read_and_written_once(extents: tuple[int, ...]) -> None:
    *shape, high, wide = extents
    x = halves(*shape)
    made = chain(patches(x, high, wide), "neg")
    back = images(chain(made, "exp"), high, wide, *shape[2:])
    for program in (segment_of([x], made), segment_of([made], back)):
        kernel = kernel_of(program)
        found, everything = walk(kernel), set(range(prod(shape)))
        assert "squares of" in str(kernel)
        assert found.misaligned == []
        assert list(found.read.values()) == [everything]
        assert list(found.written.values()) == [dict.fromkeys(everything, 1)]


@pytest.mark.sanitizer
@pytest.mark.parametrize(
    ("extents", "dtype"), with_halves(PATCHED, torch.float32, torch.int8), ids=str
)
@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_patches_and_back(extents: tuple[int, ...], dtype: torch.dtype) -> None:
    """With what lies like each of the two on the way, and a scale of channels."""
    *shape, high, wide = extents
    x = (torch.randn(shape) * 9).to(dtype)
    (a,) = like(x)
    plan = check(fusion([a], chain(patches(a, high, wide), "relu")), x, orders=ORDERS)
    assert re.search("square_|late_", plan.sources[0])
    rows = plan.run(x.to(here()))[0].cpu()
    y, scale = (torch.randn(e).to(dtype) for e in (shape, shape[1:2]))
    a, b, c = like(rows, y, scale)
    wider = expand(unsqueeze(unsqueeze(unsqueeze(c, 0), 2), 3), *shape)
    made = call("add", images(a, high, wide, *shape[2:]), call("mul", b, wider))
    plan = check(fusion([a, b, c], made), rows, y, scale, orders=ORDERS)
    assert re.search("square_|late_", plan.sources[0])


def both_ways(x: TensorView, y: TensorView) -> list[TensorView]:
    """One result like `y`, and one like `x`."""
    added = call("add", permute(x, *range(x.ndim - 2), x.ndim - 1, x.ndim - 2), y)
    return [chain(added, "relu"), call("mul", x, chain(swapped(added), "neg"))]


@pytest.mark.sanitizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.int8])
@pytest.mark.parametrize("extents", [(64, 128), (130, 67), (3, 40, 24), (2, 3, 33, 17)])
@pytest.mark.usefixtures("device")
def test_both_ways(extents: tuple[int, ...], dtype: torch.dtype) -> None:
    x = (torch.randn(extents) * 9).to(dtype)
    y = (torch.randn(x.mT.shape) * 9).to(dtype)
    a, b = like(x, y)
    check(fusion([a, b], *both_ways(a, b)), x, y, orders=ORDERS)


@pytest.mark.sanitizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int8])
@pytest.mark.parametrize("extents", [(2, 331, 328), (341, 332), (338, 332)], ids=str)
@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_fewer_lanes_of_what_is_turned(extents: tuple[int, ...], dtype: torch.dtype) -> None:
    """Of what is stored, in squares that follow its rows but for single bytes, and of what is
    read."""
    x = (torch.randn(extents) * 9).to(dtype)
    y = (torch.randn(x.mT.shape) * 9).to(dtype)
    a, b = like(x, y)
    plan = check(fusion([a], chain(swapped(a), "neg")), x, orders=ORDERS)
    assert ("square_run" if dtype is torch.int8 else "late_element") in plan.sources[0]
    plan = check(fusion([b], chain(swapped(b), "neg")), y, orders=ORDERS)
    assert re.search("square_run|late_vector", plan.sources[0])


@pytest.mark.usefixtures("device")
def test_misaligned_strided_and_expanded_operands() -> None:
    x = torch.randn(50 * 64 + 1, dtype=torch.bfloat16)[1:].view(50, 64)
    y = torch.randn(128, 100, dtype=torch.bfloat16)[::2, ::2]
    z = torch.randn(64, 1, dtype=torch.bfloat16).expand(64, 50)
    a, b, c = like(x, y, z)
    check(fusion([a, b, c], call("mul", call("add", swapped(a), b), c)), x, y, z)


@pytest.mark.usefixtures("device")
def test_a_write_in_place_beside_a_turned_load() -> None:
    x, y = torch.randn(70, 40), torch.randn(40, 70)
    a, b = like(x, y)
    check(fusion([a, b], chain(b, "neg"), writes=[(call("add", swapped(a), b), b)]), x, y)


@pytest.mark.usefixtures("device")
def test_a_write_in_place_through_a_square() -> None:
    """The target lies the other way: it is read directly and written turned, or the other way
    round; no block touches another one's elements."""
    x, y, z = torch.randn(70, 40), torch.randn(40, 70), torch.randn(40, 70)
    a, b, c = like(x, y, z)
    value = call("mul", call("add", swapped(a), b), c)
    check(fusion([a, b, c], value, writes=[(swapped(value), a)]), x, y, z)


@pytest.mark.usefixtures("device")
def test_pieces_and_replicas_are_squares_of_their_own() -> None:
    x = torch.randn(96, 64, dtype=torch.bfloat16)
    (a,) = like(x)
    low, high = piece(a, 0, 0, 48), piece(a, 0, 48, 96)
    turned = swapped(call("sub", low, high))
    check(fusion([a], chain(turned, "neg"), expand(unsqueeze(turned, 0), 2, 64, 48)), x)


@pytest.mark.usefixtures("device")
def test_two_stores_of_one_value_share_a_vector() -> None:
    x = torch.randn(48, 70)
    (a,) = like(x)
    check(fusion([a], *(chain(swapped(a), "neg") for _ in range(2)), chain(a, "neg")), x)


def permuted(seed: int) -> tuple[Fusion, list[torch.Tensor]]:
    """Sums and products of operands that lie in several orders, stored in several orders."""
    rng = random.Random(seed)
    ndim = rng.choice([2, 2, 3, 4])
    extents = [rng.choice([1, 3, 16, 17, 24, 33] + [64, 70] * (ndim < 4)) for _ in range(ndim)]
    orders = [rng.sample(range(ndim), ndim) for _ in range(rng.choice([1, 2, 3]))]
    dtypes = [torch.float32, torch.bfloat16, torch.int8, torch.float64]
    arguments = [
        (torch.randn([extents[d] for d in order]) * 5).to(rng.choice(dtypes)) for order in orders
    ]
    values = [
        permute(tv, *(order.index(d) for d in range(ndim)))
        for tv, order in zip(like(*arguments), orders, strict=True)
    ]
    made = values[0]
    for value in values[1:]:
        made = call(rng.choice(["add", "mul"]), made, value)
    stored = [permute(made, *rng.sample(range(ndim), ndim)) for _ in range(rng.choice([1, 2, 3]))]
    inputs = [tv.definition.tensors[0] for tv in values if tv.definition is not None]
    return fusion(inputs, *(call("mul", tv, tv) for tv in stored)), arguments


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("seed", random.Random(5).sample(range(1 << 20), 40))
def test_random_orders_of_axes(seed: int) -> None:
    program, arguments = permuted(seed)
    order = ORDERS[seed % 3]
    check(program, *arguments, options=Options(strict=True, thread_order=order))
