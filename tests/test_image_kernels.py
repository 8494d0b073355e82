"""Images that blocks keep as a whole, or the blocks of a cluster, each some of their rows."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.pairwise import with_halves
from tests.programs import (
    STRICT,
    chain,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    plan_of,
    total,
    unsqueeze,
    whole,
)
from tests.test_beside_kernels import below_sums
from tests.test_kept_kernels import is_close, normalised, softmax, softmax_gradient, spread
from thunder_fuser.analysis.image_slots import ImagePlanes
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.kept_ir import KeptKernel
from thunder_fuser.options import Options
from thunder_fuser.runtime.plan import Plan

walk_columns = import_module("thunder_fuser.presegment.walk_columns")  # not the function
LOOSE = Options(tune="off")
pytestmark = [pytest.mark.usefixtures("device", "few_multiprocessors"), pytest.mark.sanitizer]
SHAPES = {
    "of a block": ((25, 64, 49), 1),
    "of two": ((13, 512, 49), 2),
    "of four, in vectors": ((7, 160, 196), 4),
    "of vectors of fewer places": ((7, 320, 100), 4),
    "odd rows": ((25, 67, 81), 1),
    "rows that threads do not divide": ((13, 514, 49), 2),
    "two threads a place": ((9, 192, 225), 4),
}


@pytest.fixture
def in_registers(monkeypatch: pytest.MonkeyPatch) -> None:
    """No image passes through shared memory."""
    monkeypatch.setattr(ImagePlanes, "slots", lambda self, shared_bytes: None)


@pytest.fixture(params=["in slots", "in registers"])
def kept(request: pytest.FixtureRequest) -> str:
    """How images are kept that may be in slots."""
    if request.param == "in registers":
        request.getfixturevalue("in_registers")
    return str(request.param)


@pytest.mark.usefixtures("in_registers")
@pytest.mark.parametrize("name", SHAPES)
def test_every_element_meets_the_sums_of_its_place(name: str) -> None:
    shape, cluster = SHAPES[name]
    x = whole(*shape)
    (a,) = like(x)
    left = call("sub", a, spread(total(a, 1), a))
    largest = call("max", chain(left, "abs"), dims=(1,))
    smallest = call("min", left, dims=(1,))
    made = call("sub", left, spread(largest, a))
    plan = check(fusion([a], left, made, largest, smallest), x, orders=ORDERS)
    (source,) = plan.kernels
    assert source.cluster == cluster


def is_in_slots(plan: Plan) -> bool:
    return any(source is not None and "tf::copy_stretch(" in source.text for source in plan.kernels)


@pytest.mark.parametrize("dtype", [torch.float64, torch.int64, torch.int32, torch.int16])
def test_of_other_sizes(dtype: torch.dtype, kept: str) -> None:
    x = whole(25, 256, 49, dtype=dtype)
    (a,) = like(x)
    left = call("sub", a, spread(total(a, 1), a))
    plan = check(fusion([a], left, call("max", left, dims=(1,))), x, options=STRICT)
    is_stored_as_read = dtype.itemsize == 8  # sums of integers have 64 bits
    assert is_in_slots(plan) == (is_stored_as_read and kept == "in slots")


def test_of_truth_values(kept: str) -> None:
    """A byte each is sent, of an odd number of places."""
    x = whole(25, 512, 49)
    (a,) = like(x)
    above = call("gt", a, expand(unsqueeze(call("max", a, dims=(2,)), 2), *a.shape))
    has_any = call("any", above, dims=(1,))
    check(fusion([a], call("where", spread(has_any, a), a, chain(a, "neg"))), x, options=STRICT)


@pytest.mark.parametrize(("name", "dtype"), with_halves(list(SHAPES), torch.float32))
def test_softmax_over_channels(name: str, dtype: torch.dtype, kept: str) -> None:
    shape, _ = SHAPES[name]
    x = (torch.randn(shape) * 4).to(dtype)
    (a,) = like(x)
    plan = plan_of(fusion([a], softmax(a)), *copies([x]), options=LOOSE)
    assert plan.launches == 1
    (found,) = plan.run(*copies([x]))
    assert is_close(found, x.double().softmax(1), x.softmax(1), 1.0)


@pytest.mark.parametrize("offset", [0.0, 1e3])
@pytest.mark.parametrize("name", SHAPES)
def test_a_norm_of_channels_stores_its_statistics_once(name: str, offset: float, kept: str) -> None:
    shape, _ = SHAPES[name]
    x = torch.randn(shape) + offset
    weight, shift = torch.randn(shape[1]), torch.randn(shape[1])
    inputs = like(x, weight, shift)
    given = copies([x, weight, shift])
    plan = plan_of(fusion(inputs, *normalised(*inputs)), *given, options=LOOSE)
    assert plan.launches == 1
    found, mean, variance = plan.run(*given)
    wide = x.double()
    assert is_close(mean, wide.mean(1), x.mean(1), abs(offset) + 1)
    exact, usual = wide.var(1, correction=0), x.var(1, correction=0)
    assert is_close(variance, exact, usual, 64 * (1 + abs(offset)))
    normal = (wide - wide.mean(1, keepdim=True)) / (exact.unsqueeze(1) + 1e-5).sqrt()
    eager = ((x - x.mean(1, keepdim=True)) / (usual.unsqueeze(1) + 1e-5).sqrt()).double()
    rows = weight[:, None].double(), shift[:, None].double()
    expected, eager = (t * rows[0] + rows[1] for t in (normal, eager))
    assert is_close(found, expected, eager, 8 * (1 + abs(offset)))


@pytest.mark.usefixtures("small_planes", "in_registers")
@pytest.mark.parametrize(
    ("shape", "cluster"),
    [((26, 64, 49), 1), ((25, 67, 81), 1), ((24, 512, 49), 2), ((24, 160, 196), 2)],
    ids=str,
)
def test_sums_over_all_places_beside_images(shape: tuple[int, ...], cluster: int) -> None:
    """Each image is a group: a launch, and the sums of what images came to."""
    x, y = whole(*shape), whole(*shape)
    a, b = like(x, y)
    products = call("mul", a, b)
    left = call("sub", b, spread(total(products, 1), b))
    sums = total(b, 0, 2), total(products, 0, 2)
    plan = check(fusion([a, b], left, *sums), x, y, orders=ORDERS)
    assert [source.cluster for source in plan.kernels] == [cluster, 1]
    assert plan.kernels[0].blocks == shape[0] * cluster
    assert "int group = " in plan.kernels[0].text


@pytest.mark.usefixtures("small_planes")
def test_sums_that_follow_from_those_of_their_places(kept: str) -> None:
    x = whole(26, 96, 49)
    (a,) = like(x)
    left = below_sums(a, 1)
    sums = total(chain(a, "neg"), 0, 2), call("max", left, dims=(0, 2))
    plan = check(fusion([a], left, *sums), x, options=STRICT)
    assert next(source.blocks for source in plan.kernels) == 26


def test_tensors_may_lie_otherwise(kept: str) -> None:
    """Nothing else is kept as a whole: rows with a gap, or of which two images have the same."""
    for x in (whole(25, 64, 50)[:, :, 1:], whole(25, 128, 49)[:, ::2], whole(49, 64, 25).mT.mT):
        (a,) = like(x)
        check(fusion([a], call("sub", a, spread(total(a, 1), a))), x, options=STRICT)
    x = whole(1, 64, 49).expand(25, 64, 49)
    y = whole(25, 64, 49)
    a, b = like(x, y)
    check(
        fusion([a, b], call("sub", b, spread(total(call("mul", a, b), 1), a))),
        x,
        y,
        options=STRICT,
    )


def test_an_image_is_written_in_place_where_its_blocks_keep_it(kept: str) -> None:
    x = whole(25, 512, 49)
    (a,) = like(x)
    made = call("sub", a, spread(total(a, 1), a))
    plan = check(fusion([a], total(a, 1), writes=[(made, a)]), x, options=STRICT)
    assert [source.cluster for source in plan.kernels] == [1 if kept == "in slots" else 2]


def test_the_order_of_threads_does_not_show_in_a_bit(kept: str) -> None:
    x = torch.randn(25, 512, 49) * 3
    (a,) = like(x)
    found = []
    for order in ORDERS:
        options = replace(STRICT, thread_order=order)
        plan = plan_of(fusion([a], softmax(a)), *copies([x]), options=options)
        found += [plan.run(*copies([x]))[0].cpu() for _ in range(2)]
    assert all(torch.equal(found[0], other) for other in found)


@pytest.mark.parametrize(
    ("shape", "dtype", "cluster"),
    [
        ((2674, 512, 49), torch.bfloat16, 1),
        ((1337, 256, 196), torch.bfloat16, 4),
        ((10000, 128, 49), torch.bfloat16, 1),
    ],
    ids=str,
)
def test_gradients_of_softmax_are_kept_without_spills(
    shape: tuple[int, ...], dtype: torch.dtype, cluster: int
) -> None:
    x, y = (torch.empty(shape, dtype=dtype) for _ in range(2))
    segmented, (kernel,) = cuda_kernels(softmax_gradient(*like(x, y)), x, y)
    assert segmented.edge_bytes == 0
    assert isinstance(kernel, KeptKernel)
    assert kernel.cluster == cluster
    assert cubin_of(kernel).spill_bytes == 0


@pytest.mark.usefixtures("small_planes", "in_registers")
@pytest.mark.parametrize("groups", [13, 7, 12], ids=["evenly", "in four turns", "unevenly"])
def test_clusters_may_walk_images(groups: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mail of one turn goes to other places than that of the next."""
    monkeypatch.setattr(walk_columns, "_groups", lambda *given: walk_columns.Dealt(groups, 49))
    x, y = whole(26, 512, 49), whole(26, 512, 49)
    a, b = like(x, y)
    products = call("mul", a, b)
    left = call("sub", b, spread(total(products, 1), b))
    program = fusion([a, b], left, total(b, 0, 2), total(products, 0, 2))
    plan = check(program, x, y, orders=ORDERS)
    first = plan.kernels[0]
    assert (first.cluster, first.blocks) == (2, 2 * groups)
    assert "mail[turn % 2][0]" in first.text


@pytest.mark.usefixtures("small_planes")
@pytest.mark.parametrize("dtype", [torch.float64, torch.int64])
def test_sums_of_eight_bytes_have_room_to_meet(dtype: torch.dtype, kept: str) -> None:
    x = whole(26, 512, 49, dtype=dtype)
    (a,) = like(x)
    left = below_sums(a, 1)
    sums = total(chain(a, "neg"), 0, 2), call("max", left, dims=(0, 2)), total(left, 0, 2)
    check(fusion([a], left, *sums), x, options=STRICT)
