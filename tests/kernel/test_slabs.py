"""Runs of memory that are turned in shared memory: the body, and results bit for bit."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.devices import ORDERS, here
from tests.kernel.interpreted import walk
from tests.kernel.test_lower import body_of, kernel_of
from tests.programs import chain, check, expand, fusion, images, like, patches, permute, unsqueeze
from tests.schedule.segments import halves, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView

EXTENTS = [(2, 100, 72), (13, 16, 49), (3, 31, 8, 25), (40, 49, 24), (2, 141, 56)]
ODD = [(2, 151, 7, 41), (3, 31, 257), (37, 9, 7, 7), (19, 49, 3, 5), (141, 9, 3, 3), (1, 319, 331)]


def last(x: TensorView) -> TensorView:
    """Images with channels last."""
    return permute(x, 0, *range(2, x.ndim), 1)


def first(x: TensorView) -> TensorView:
    return permute(x, 0, x.ndim - 1, *range(1, x.ndim - 1))


def test_slabs_are_filled_before_and_emptied_after_the_values() -> None:
    x = halves(2, 100, 64)
    y = halves(2, 64, 100)
    added = call("add", permute(x, 0, 2, 1), y)
    segment = segment_of([x, y], added, chain(permute(added, 0, 2, 1), "neg"))
    assert body_of(segment) == dedent("""\
        v0 = load T0[6400*i0 + 64*i1 + 8*i2], 8 x bf16, 16 bytes at a time
        t0 = turn T2[6400*i0 + 800*i2 + 8*i1], 8 x bf16, 16 bytes at a time
        T2_0: f32 = t0[vector + lane, row]
        T0_0: f32 = v0[k][1*lane + 0]
        T3_0: f32 = add(T0_0, T2_0)
        T5_0: f32 = neg(T3_0)
        t1[vector + lane, row] = T3_0
        w0[1*lane + 0] = T5_0
        store w0 -> T5[6400*i0 + 64*i1 + 8*i2], 8 x bf16, 16 bytes at a time
        turn t1 -> T3[6400*i0 + 800*i2 + 8*i1], 8 x bf16, 16 bytes at a time""")


@pytest.mark.parametrize("extents", [*EXTENTS, *ODD, (2, 150, 7, 41)])
def test_every_element_is_read_and_written_once(extents: tuple[int, ...]) -> None:
    x = halves(*extents)
    kernel = kernel_of(segment_of([x], chain(last(x), "neg")))
    found, everything = walk(kernel), set(range(torch.Size(extents).numel()))
    assert "in slabs of" in str(kernel)
    assert found.misaligned == []
    assert found.read["T0"] == everything
    assert found.written["T2"] == dict.fromkeys(everything, 1)


def test_what_is_turned_is_moved_in_vectors_though_the_rest_is_moved_one_by_one() -> None:
    x = halves(8, 31, 257)
    assert body_of(segment_of([x], chain(last(x), "neg"))) == dedent("""\
        v0 = load T0[7967*(i0/257) + 257*i1 + (i0%257)], 1 x bf16, 2 bytes at a time
        T0_0: f32 = v0[k][0*lane + 0]
        T2_0: f32 = neg(T0_0)
        t0[vector + lane, row] = T2_0
        turn t0 -> T2[248*i0 + 8*i1], 8 x bf16, 16 bytes at a time""")


def test_what_is_turned_is_moved_in_wider_vectors_than_two_places() -> None:
    """Which are all that a patch has side by side in the image: two of its rows are neighbours too,
    and in rows of 31 channels the places of both come in another order."""
    x = halves(3, 31, 8, 16)
    assert body_of(segment_of([x], chain(patches(x, 2, 2), "neg"))) == dedent("""\
        v0 = load T0[3968*i0 + 128*i1 + 8*i2], 8 x bf16, 16 bytes at a time
        T0_0: f32 = v0[k][1*lane + 0]
        T4_0: f32 = neg(T0_0)
        t0[vector + lane, row] = T4_0
        turn t0 -> T4[3968*i0 + 248*i2 + 8*i1], 8 x bf16, 16 bytes at a time""")


@pytest.mark.sanitizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64, torch.int8])
@pytest.mark.parametrize("extents", [*EXTENTS, *ODD], ids=str)
@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_masks_and_values_of_images(extents: tuple[int, ...], dtype: torch.dtype) -> None:
    """Forward, and what the mask keeps backward."""
    x = (torch.randn(extents) * 9).to(dtype)
    g = torch.randn(extents).to(dtype).movedim(1, -1).contiguous()
    a, b = like(x, g)
    mask = call("lt", last(a), b)
    back = call("where", first(mask), first(b), a)
    plan = check(
        fusion([a, b], mask, chain(last(a), "neg"), back),
        x,
        g,
        orders=ORDERS,
    )
    assert any("slab_vector" in source for source in plan.sources)


@pytest.mark.sanitizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int8])
@pytest.mark.parametrize("extents", [(2, 784, 3), (3, 20, 24, 5), (2, 1001, 12)], ids=str)
@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_few_channels_that_come_first(extents: tuple[int, ...], dtype: torch.dtype) -> None:
    x = (torch.randn(extents) * 9).to(dtype)
    (a,) = like(x)
    plan = check(fusion([a], chain(first(a), "neg")), x, orders=ORDERS)
    assert "slab_vector" in plan.sources[0]


@pytest.mark.sanitizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.int8])
@pytest.mark.parametrize(
    "extents",
    [
        (3, 31, 8, 8, 2, 2),
        (2, 31, 16, 12, 4, 2),
        (2, 45, 15, 6, 5, 2),
        (7, 12, 4, 14, 1, 2),
        (1, 150, 4, 28, 2, 2),
        (2, 17, 70, 8, 2, 2),  # the last block has a third of the places
        (3, 29, 12, 20, 3, 5),
        (4, 27, 16, 9, 4, 3),
        (2, 48, 3, 43, 3, 1),  # the channels are in two orders, not the places
    ],
    ids=str,
)
@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_patches_of_odd_channels_and_back(extents: tuple[int, ...], dtype: torch.dtype) -> None:
    *shape, high, wide = extents
    x = (torch.randn(shape) * 9).to(dtype)
    (a,) = like(x)
    plan = check(fusion([a], chain(patches(a, high, wide), "relu")), x, orders=ORDERS)
    assert "slab_vector" in plan.sources[0]
    rows = plan.run(x.to(here()))[0].cpu()
    (a,) = like(rows)
    made = chain(images(a, high, wide, *shape[2:]), "neg")
    plan = check(fusion([a], made), rows, orders=ORDERS)
    assert "slab_vector" in plan.sources[0]


@pytest.mark.parametrize("extents", [(5, 6, 4, 24, 4), (2, 7, 3, 40, 3)], ids=str)
@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_blocks_that_become_channels(extents: tuple[int, ...]) -> None:
    x = torch.randn(extents, dtype=torch.bfloat16)
    (a,) = like(x)
    plan = check(fusion([a], chain(permute(a, 0, 2, 4, 1, 3), "neg")), x)
    assert "slab_vector" in plan.sources[0]


@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_scales_of_channels_and_of_places() -> None:
    """Read as they lie beside images that are walked as one axis with their channels."""
    x, scale, bias = torch.randn(21, 16, 49), torch.randn(16), torch.randn(49)
    a, b, c = like(x, scale, bias)
    wide = [expand(unsqueeze(unsqueeze(b, 0), 0), 21, 49, 16)]
    wide.append(expand(unsqueeze(unsqueeze(c, 0), 2), 21, 49, 16))
    made = call("add", call("mul", permute(a, 0, 2, 1), wide[0]), wide[1])
    plan = check(fusion([a, b, c], made), x, scale, bias)
    assert "slab_vector" in plan.sources[0]


@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_scales_of_channels_and_of_places_of_patches() -> None:
    """Read where they lie beside places that are in two orders, and a mask in that of patches."""
    x, scale, bias = torch.randn(5, 31, 8, 8), torch.randn(31), torch.randn(8, 8)
    mask = torch.randn(5, 16, 124)
    a, b, c, d = like(x, scale, bias, mask)
    wide = expand(unsqueeze(unsqueeze(unsqueeze(b, 0), 2), 3), 5, 31, 8, 8)
    places = expand(unsqueeze(unsqueeze(c, 0), 0), 5, 31, 8, 8)
    moved = patches(call("add", call("mul", a, wide), places), 2, 2)
    plan = check(fusion([a, b, c, d], call("mul", moved, d)), x, scale, bias, mask)
    assert "slab_vector" in plan.sources[0]


@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_a_write_in_place_through_a_slab() -> None:
    x, y = torch.randn(3, 20, 96), torch.randn(3, 96, 20)
    a, b = like(x, y)
    value = call("mul", permute(a, 0, 2, 1), b)
    plan = check(fusion([a, b], chain(value, "neg"), writes=[(permute(value, 0, 2, 1), a)]), x, y)
    assert "slab_vector" in plan.sources[0]
