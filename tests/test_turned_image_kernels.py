"""Images of which some planes lie place after place, through shared memory: those that are read so
in slots beside the others, those that are stored so from threads at rows."""

from __future__ import annotations

import pytest
import torch

from tests.devices import ORDERS, copies
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
from tests.test_image_kernels import is_in_slots
from tests.test_kept_kernels import is_close, spread
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.runtime.plan import Plan

LOOSE = Options(tune="off")
pytestmark = [
    pytest.mark.usefixtures("device", "few_multiprocessors", "small_planes"),
    pytest.mark.sanitizer,
]
SHAPES = {
    "of two slots": ((26, 512, 49), torch.bfloat16, 2),
    "of one slot": ((27, 512, 49), torch.float32, 1),
    "vectors to their registers": ((27, 64, 196), torch.bfloat16, 2),
    "several threads a row": ((29, 128, 100), torch.bfloat16, 2),
    "several blocks": ((101, 80, 49), torch.bfloat16, 2),
    "rows that no threads divide": ((37, 264, 49), torch.float16, 2),
    "more rows than threads": ((25, 1032, 33), torch.bfloat16, 1),
    "wide elements": ((26, 254, 49), torch.float64, 1),
    "few rows": ((260, 16, 49), torch.float32, 2),
}


def turned(x: TensorView) -> TensorView:
    return call("permute", x, dims=(0, 2, 1))


def along(x: TensorView, reduced: TensorView) -> TensorView:
    """What rows of a plane that is turned came to, at each of their elements."""
    return expand(unsqueeze(reduced, 2), *x.shape)


def is_turned_in_slots(plan: Plan) -> bool:
    sources = [source for source in plan.kernels if source is not None]
    return any("tf::copy_stretch(" in s.text and "tf::copy_async<16>(" in s.text for s in sources)


def gradients(a: TensorView, b: TensorView) -> Fusion:
    """Sums of places and of rows, and what follows from the former; `b` is turned."""
    straight = turned(b)
    products = call("mul", a, straight)
    left = call("sub", straight, spread(total(products, 1), a))
    return fusion([a, b], left, total(straight, 0, 2), total(products, 0, 2))


def planes(shape: tuple[int, ...], dtype: torch.dtype) -> tuple[torch.Tensor, torch.Tensor]:
    images, rows, places = shape
    return whole(*shape, dtype=dtype), whole(images, places, rows, dtype=dtype)


@pytest.mark.parametrize("name", SHAPES)
def test_each_row_sums_its_places_of_all_images(name: str) -> None:
    shape, dtype, slots = SHAPES[name]
    x, y = planes(shape, dtype)
    plan = check(gradients(*like(x, y)), x, y, orders=ORDERS)
    assert is_turned_in_slots(plan)
    first, _ = plan.kernels
    assert first is not None
    assert f"arrived[{slots}];" in first.text
    assert first.blocks < shape[0]  # each walks


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_gradient_of_a_norm_is_as_exact_as_eagers(dtype: torch.dtype) -> None:
    x, dy = torch.randn(26, 256, 49).to(dtype), torch.randn(26, 49, 256).to(dtype)
    scale = (x.float().var(1, correction=0) + 1e-5).rsqrt()
    a, b, c = inputs = like(x, dy, scale)
    wide = call("cast", turned(b), dtype=DataType.Float)
    products = call("mul", wide, call("cast", a, dtype=DataType.Float))
    made = call("mul", spread(c, a), call("sub", wide, spread(total(products, 1), a)))
    results = call("cast", made, dtype=a.dtype), total(wide, 0, 2), total(products, 0, 2)
    given = copies([x, dy, scale])
    plan = plan_of(fusion(inputs, *results), *given, options=LOOSE)
    assert is_turned_in_slots(plan)
    found = plan.run(*given)

    def formula(*of: torch.Tensor) -> tuple[torch.Tensor, ...]:
        own, grad, factor = of[0], of[1].transpose(1, 2), of[2]
        both = grad * own
        apart = factor[:, None] * (grad - both.sum(1, keepdim=True))
        return apart, grad.sum((0, 2)), both.sum((0, 2))

    exact = formula(*(t.double() for t in (x, dy, scale)))
    usual = formula(x.float(), dy.float(), scale)
    for got, wanted, eager in zip(found, exact, usual, strict=True):
        assert is_close(got, wanted, eager.to(got.dtype), wanted.abs().max().item())


@pytest.mark.parametrize("beside", [True, False])
def test_threads_at_rows_store_what_is_turned(beside: bool) -> None:
    """Beside what is stored as it lies."""
    x, y = planes((26, 512, 49), torch.bfloat16)
    a, b = like(x, y)
    other = turned(a)
    left = call("sub", b, along(b, total(other, 2)))
    made = turned(call("add", other, along(other, total(other, 2))))
    straight = chain(made, "neg")
    sums = [total(b, 0, 1)] if beside else []
    plan = check(fusion([a, b], left, straight, *sums), x, y, options=STRICT)
    assert is_turned_in_slots(plan)
    first = plan.kernels[0]
    assert first is not None
    assert first.text.count("tf::store_stretch(") == 1


@pytest.mark.parametrize("rows", [512, 776, 264])
def test_a_block_turns_an_image(rows: int) -> None:
    x = whole(40, rows, 49, dtype=torch.bfloat16)
    (a,) = like(x)
    b = turned(a)
    left = call("sub", b, along(b, total(b, 2)))
    largest = call("max", chain(left, "abs"), dims=(2,))
    made = call("sub", left, along(left, largest))
    plan = check(fusion([a], made, largest), x, orders=ORDERS)
    assert plan.launches == 1
    assert is_in_slots(plan)
    (source,) = plan.kernels
    assert source is not None
    assert "tf::store_stretch(" not in source.text


def test_planes_of_several_types() -> None:
    x, y = whole(26, 256, 49), whole(26, 49, 256, dtype=torch.bfloat16)
    z = whole(26, 49, 256, dtype=torch.float32)
    a, b, c = like(x, y, z)
    both = call("add", call("cast", turned(b), dtype=DataType.Float), turned(c))
    left = call("sub", a, spread(total(both, 1), a))
    plan = check(fusion([a, b, c], left, total(both, 0, 2)), x, y, z, options=STRICT)
    assert is_turned_in_slots(plan)


@pytest.mark.parametrize(
    ("shape", "first"),
    [((26, 250, 49), 0), ((26, 256, 49), 1), ((26, 128, 144), 0)],
    ids=["no whole accesses", "between accesses", "few banks"],
)
def test_others_do_not_pass(shape: tuple[int, ...], first: int) -> None:
    images, rows, places = shape
    x, held = planes(shape, torch.bfloat16)[0], whole(images * rows * places + 1)
    y = held.to(torch.bfloat16)[first:][: x.numel()].view(images, places, rows)
    plan = check(gradients(*like(x, y)), x, y, options=STRICT)
    assert not is_turned_in_slots(plan)


def test_infinity_and_nan_stay_in_their_places_and_rows() -> None:
    x, y = torch.randn(26, 256, 49), torch.randn(26, 49, 256)
    y[3, 11, 7], y[5, 13, 9] = torch.inf, torch.nan
    a, b = like(x, y)
    straight = turned(b)
    left = call("sub", a, spread(call("max", straight, dims=(1,)), a))
    given = copies([x, y])
    plan = plan_of(fusion([a, b], left, total(straight, 0, 2)), *given, options=LOOSE)
    assert is_turned_in_slots(plan)
    found, sums = (t.cpu() for t in plan.run(*given))
    assert torch.equal(found.isnan(), (x - y.amax(2)[:, None]).isnan())
    assert torch.equal(sums.isfinite(), y.sum((0, 1)).isfinite())
