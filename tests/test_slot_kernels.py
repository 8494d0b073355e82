"""Images that pass through shared memory, one after another where sums over them are beside."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS, copies, here
from tests.programs import (
    STRICT,
    chain,
    check,
    expand,
    fusion,
    like,
    plan_of,
    total,
    unsqueeze,
    whole,
)
from tests.test_beside_kernels import below_sums
from tests.test_image_kernels import is_in_slots
from tests.test_kept_kernels import is_close, spread
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.scalar import constant
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options

LOOSE = Options(tune="off")
pytestmark = [
    pytest.mark.usefixtures("device", "few_multiprocessors", "small_planes"),
    pytest.mark.sanitizer,
]
SHAPES = {
    "of two slots": ((26, 512, 49), torch.bfloat16, "2 slots"),
    "of one slot": ((27, 512, 49), torch.float32, "1 slots"),
    "three threads a row": ((29, 128, 100), torch.bfloat16, "2 slots"),
    "several blocks": ((101, 80, 49), torch.bfloat16, "2 slots"),
    "rows that no threads divide": ((37, 264, 49), torch.float16, "2 slots"),
    "more rows than threads": ((25, 1032, 33), torch.bfloat16, "1 slots"),
    "wide elements": ((26, 254, 49), torch.float64, "1 slots"),
    "few rows": ((260, 16, 49), torch.float32, "2 slots"),
}


def gradients(a: TensorView, b: TensorView) -> Fusion:
    """Sums of places and of rows, and what follows from the former."""
    products = call("mul", a, b)
    left = call("sub", b, spread(total(products, 1), b))
    return fusion([a, b], left, total(b, 0, 2), total(products, 0, 2))


@pytest.mark.parametrize("name", SHAPES)
def test_each_row_sums_its_places_of_all_images(name: str) -> None:
    shape, dtype, slots = SHAPES[name]
    x, y = whole(*shape, dtype=dtype), whole(*shape, dtype=dtype)
    plan = check(gradients(*like(x, y)), x, y, orders=ORDERS)
    assert is_in_slots(plan)
    assert len(plan.kernels) == 2
    first = plan.kernels[0]
    assert first is not None
    assert f"arrived[{slots[0]}];" in first.text
    assert first.blocks < shape[0]  # each walks


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gradient_of_a_norm_is_as_exact_as_eagers(dtype: torch.dtype) -> None:
    images, rows, places = 26, 256, 49
    x, dy = (torch.randn(images, rows, places).to(dtype) for _ in range(2))
    mean = x.float().mean(1)
    scale = (x.float().var(1, correction=0) + 1e-5).rsqrt()
    a, b, c, d = inputs = like(x, dy, mean, scale)
    wide = call("cast", b, dtype=DataType.Float)
    left = call(
        "mul", call("sub", call("cast", a, dtype=DataType.Float), spread(c, a)), spread(d, a)
    )
    products = call("mul", wide, left)
    sums = (call("div", total(t, 1), constant(float(rows))) for t in (wide, products))
    first, second = (spread(t, a) for t in sums)
    made = call(
        "mul", spread(d, a), call("sub", call("sub", wide, first), call("mul", left, second))
    )
    results = call("cast", made, dtype=a.dtype), total(wide, 0, 2), total(products, 0, 2)
    given = copies([x, dy, mean, scale])
    plan = plan_of(fusion(inputs, *results), *given, options=LOOSE)
    assert is_in_slots(plan)
    found = plan.run(*given)

    def formula(*of: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own, grad, middle, factor = of
        normal = (own - middle[:, None]) * factor[:, None]
        both = grad * normal
        apart = grad - grad.mean(1, keepdim=True) - normal * both.mean(1, keepdim=True)
        return factor[:, None] * apart, grad.sum((0, 2)), both.sum((0, 2))

    exact = formula(*(t.double() for t in (x, dy, mean, scale)))
    usual = formula(x.float(), dy.float(), mean, scale)
    for got, wanted, eager in zip(found, exact, usual, strict=True):
        assert is_close(got, wanted, eager.to(got.dtype), wanted.abs().max().item())


def test_what_is_stored_twice_leaves_one_slot() -> None:
    x, y = whole(26, 256, 49), whole(26, 256, 49)
    a, b = like(x, y)
    left = call("sub", b, spread(total(a, 1), b))
    again = call("sub", b, spread(total(a, 1), b))
    plan = check(fusion([a, b], left, again, total(b, 0, 2)), x, y, options=STRICT)
    assert is_in_slots(plan)
    assert plan.kernels[0] is not None
    assert plan.kernels[0].text.count("tf::store_stretch(") == 2


def test_each_plane_becomes_another_in_its_place() -> None:
    x, y = whole(26, 256, 49), whole(26, 256, 49)
    a, b = like(x, y)
    crossed = call("sub", b, spread(total(a, 1), b)), call("add", a, spread(total(b, 1), a))
    plan = check(fusion([a, b], *crossed, total(b, 0, 2)), x, y, options=STRICT)
    assert is_in_slots(plan)


def test_planes_are_exchanged_in_place() -> None:
    x, y = whole(26, 256, 49), whole(26, 256, 49)
    a, b = like(x, y)
    crossed = call("sub", b, spread(total(a, 1), b)), call("add", a, spread(total(b, 1), a))
    writes = [(crossed[0], a), (crossed[1], b)]
    check(fusion([a, b], total(b, 0, 2), writes=writes), x, y, options=STRICT)


@pytest.mark.parametrize("images", [24, 25], ids=["evenly", "unevenly"])
def test_a_sum_without_neutral_element(images: int) -> None:
    """No images can be added to those that blocks share then."""
    x = whole(images, 256, 49)
    (a,) = like(x)
    left = call("sub", a, spread(total(a, 1), a))
    check(fusion([a], left, call("max", left, dims=(0, 2)), total(a, 0, 2)), x, options=STRICT)


def test_sums_that_follow_from_those_of_their_places() -> None:
    x = whole(26, 96, 49)
    (a,) = like(x)
    left = below_sums(a, 1)
    plan = check(
        fusion([a], total(chain(a, "neg"), 0, 2), total(left, 0, 2), left), x, options=STRICT
    )
    assert is_in_slots(plan)


def test_threads_at_rows_know_what_there_is_of_places_in_several_types() -> None:
    x, kind = whole(26, 256, 49), torch.arange(26 * 49).reshape(26, 49) % 3
    a, k = like(x, kind)
    is_second = spread(call("eq", k, constant(1)), a)
    even = spread(call("cast", call("mul", k, k), dtype=DataType.Float), a)
    made = call("where", is_second, call("sub", a, spread(total(a, 1), a)), call("add", a, even))
    plan = check(fusion([a, k], made, total(made, 0, 2)), x, kind, options=STRICT)
    assert is_in_slots(plan)
    first = plan.kernels[0]
    assert first is not None
    assert "bool_known_at[" in first.text


def test_what_there_is_of_rows_is_read_once() -> None:
    x, scale, shift = whole(40, 256, 49), whole(256), whole(256, dtype=torch.float16)
    a, b, c = like(x, scale, shift)
    rows = (expand(unsqueeze(unsqueeze(t, 0), 2), *a.shape) for t in (b, c))
    weight, bias = (call("cast", t, dtype=a.dtype) for t in rows)
    left = call("add", call("mul", a, weight), bias)
    made = call("sub", left, spread(total(left, 1), a))
    plan = check(fusion([a, b, c], made, total(left, 0, 2)), x, scale, shift, options=STRICT)
    assert is_in_slots(plan)
    alone = check(fusion([a, b, c], made), x, scale, shift, options=STRICT)
    assert is_in_slots(alone)


@pytest.mark.parametrize("beside", [True, False])
def test_planes_that_begin_between_accesses_do_not_pass(beside: bool) -> None:
    x = whole(26 * 512 * 49 + 1)[1:].view(26, 512, 49)
    (a,) = like(x)
    left = call("sub", a, spread(total(a, 1), a))
    sums = [total(a, 0, 2)] if beside else []
    assert not is_in_slots(check(fusion([a], left, *sums), x, options=STRICT))


def test_infinity_and_nan_stay_in_their_places_and_rows() -> None:
    x = torch.randn(26, 256, 49)
    x[3, 7, 11], x[5, 9, 13] = torch.inf, torch.nan
    (a,) = like(x)
    left = call("sub", a, spread(call("max", a, dims=(1,)), a))
    given = copies([x])
    plan = plan_of(fusion([a], left, total(a, 0, 2)), *given, options=LOOSE)
    assert is_in_slots(plan)
    found, sums = (t.cpu() for t in plan.run(*given))
    assert torch.equal(found.isnan(), (x - x.amax(1, keepdim=True)).isnan())
    assert torch.equal(sums.isfinite(), x.sum((0, 2)).isfinite())


def test_the_same_bits_come_out_each_time() -> None:
    x, y = torch.randn(37, 264, 49), torch.randn(37, 264, 49)
    found = []
    for order in ORDERS if here().type == "cpu" else ORDERS[:1]:
        options = replace(STRICT, thread_order=order)
        given = copies([x, y])
        plan = plan_of(gradients(*like(x, y)), *given, options=options)
        found += [[t.cpu() for t in plan.run(*copies([x, y]))] for _ in range(2)]
    assert all(torch.equal(a, b) for again in found for a, b in zip(found[0], again, strict=True))


@pytest.mark.parametrize("beside", [True, False])
def test_numbers_of_images_and_rows_become_parameters(beside: bool) -> None:
    options = replace(STRICT, static_kernels=1)
    for images, rows in ((40, 256), (41, 256), (45, 264), (42, 272)):
        x, scale = whole(images, rows, 49), whole(rows)
        a, b = like(x, scale)
        weight = expand(unsqueeze(unsqueeze(b, 0), 2), *a.shape)
        made = call("sub", call("mul", a, weight), spread(total(a, 1), a))
        sums = [total(a, 0, 2)] if beside else []
        plan = check(fusion([a, b], made, *sums), x, scale, options=options)
        assert is_in_slots(plan)


def test_what_there_is_of_many_rows_and_places_has_room_or_is_in_registers() -> None:
    """What a block asks for is checked by the compiler too."""
    rows = [whole(512) for _ in range(20)]
    places = [whole(26, 49) for _ in range(9)]
    x = whole(26, 512, 49, dtype=torch.bfloat16)
    a, *others = like(x, *rows, *places)
    made = call("cast", a, dtype=DataType.Float)
    for row in others[:20]:
        made = call("add", made, expand(unsqueeze(unsqueeze(row, 0), 2), *a.shape))
    for place in others[20:]:
        made = call("add", made, spread(place, a))
    left = call("sub", made, spread(total(made, 1), a))
    results = call("cast", left, dtype=a.dtype), total(left, 0, 2)
    check(fusion([a, *others], *results), x, *rows, *places, options=STRICT)


def test_an_image_of_more_rows_than_threads_have_of_two_pieces() -> None:
    x = whole(25, 2560, 33, dtype=torch.bfloat16)
    (a,) = like(x)
    left = call("sub", a, spread(total(a, 1), a))
    plan = check(fusion([a], left, total(a, 0, 2)), x, options=STRICT)
    assert is_in_slots(plan)
