"""Which sums of one plane are summed once over what they have in common, and that results stay."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent

import pytest
import torch

from tests.programs import expand, full, fusion, like, machine, permute, reshape, total, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.share_sums import MIN_PLANE, share_sums
from thunder_fuser.runtime.evaluate import evaluate

IMAGES, CHANNELS, PLACES = 6, 35, 256
SHAPE = (IMAGES, CHANNELS, PLACES)
Build = Callable[[TensorView, TensorView], tuple[TensorView, ...]]


def nowhere(tv: TensorView) -> bool:
    """No sum is made place by place first."""
    return False


def weighted(x: TensorView, w: TensorView) -> TensorView:
    return call("mul", expand(reshape(w, 1, CHANNELS, 1), *SHAPE), x)


def group_sums(x: TensorView, w: TensorView) -> tuple[TensorView, ...]:
    """Of groups of five channels with weights, and of the channels of all images."""
    product = call("mul", x, call("sin", x))
    of_groups = reshape(weighted(product, w), IMAGES, CHANNELS // 5, 5, PLACES)
    return total(of_groups, 2, 3), total(product, 0, 2)


def sums_of(made: Fusion) -> list[tuple[int, ...]]:
    """The shapes of what long sums sum."""
    sums = [t.definition for t in made.tensors if t.definition and t.definition.op.name == "sum"]
    return [expr.tensors[0].shape for expr in sums]


def test_what_groups_and_channels_have_in_common_is_summed_once() -> None:
    x = tensor(DataType.Float, *SHAPE)
    groups = reshape(call("sin", x), IMAGES, CHANNELS // 5, 5, PLACES)
    made = share_sums(
        fusion([x], total(groups, 2, 3), total(call("sin", x), 0, 2)), machine(1), nowhere
    )
    assert str(made) == dedent("""\
        fusion(T0: f32[i6, i35, i256]) {
          T1: f32[i6, i35, i256] = sin(T0)
          T2: f32[i6, i7, i5, i256] = reshape(T1, new_shape=[6, 7, 5, 256])
          T3: f32[i6, i7, i5, r256] = sum(T2, dims=[3])
          T4: f32[i6, i7, r5] = sum(T3, dims=[2])
          T5: f32[r6, i7, i5] = sum(T3, dims=[0])
          T6: f32[i35] = reshape(T5, new_shape=[35])
          return T4, T6
        }""")


SHARED: dict[str, Build] = {
    "groups and channels": group_sums,
    "channels and images": lambda x, w: (total(weighted(x, w), 0, 2), total(x, 1, 2)),
    "the common sum itself": lambda x, w: (total(weighted(x, w), 2), total(x, 0, 2)),
    "down columns": lambda x, w: (
        total(reshape(x, 3, 140, 128), 1),
        total(reshape(weighted(x, w), 420, 128), 0),
    ),
    "negated twice, and once": lambda x, w: (
        total(call("neg", weighted(call("neg", x), w)), 1, 2),
        total(call("neg", x), 0, 2),
    ),
    "of what the other gives": lambda x, w: (
        sums := total(x, 1, 2),
        total(call("mul", x, expand(reshape(sums, IMAGES, 1, 1), *SHAPE)), 0, 2),
    ),
    "times a 0-d tensor": lambda x, w: (
        total(call("mul", full(0.5), weighted(x, w)), 1, 2),
        total(call("mul", x, full(3.0)), 0, 2),
    ),
    "weights that are not expanded": lambda x, w: (
        total(call("mul", reshape(w, CHANNELS, 1), x), 1, 2),
        total(call("mul", x, full(2.0, PLACES)), 0, 2),
    ),
    "of factors alone": lambda x, w: (
        total(x, 1, 2),
        total(call("add", x, x), 0, 2),
        total(weighted(expand(reshape(w, 1, CHANNELS, 1), *SHAPE), w), 0, 2),
    ),
    "casts of one tensor": lambda x, w: (
        total(call("cast", call("cast", x, dtype=DataType.BFloat16), dtype=DataType.Float), 1, 2),
        total(weighted(x, w), 0, 2),
    ),
    "of several dims": lambda x, w: (
        total(reshape(x, IMAGES, CHANNELS, 16, 16), 2, 3),
        total(reshape(weighted(x, w), IMAGES, CHANNELS, 16, 16), 0, 2, 3),
    ),
}


@pytest.mark.parametrize("name", SHARED)
def test_results_stay_what_they_are(name: str) -> None:
    x0, w0 = torch.randn(SHAPE), torch.randn(CHANNELS)
    x, w = like(x0, w0)
    program = fusion([x, w], *SHARED[name](x, w))
    made = share_sums(program, machine(1), nowhere)
    assert made is not program
    exact = evaluate(program, (x0.double(), w0.double()))
    for found, wanted in zip(evaluate(made, (x0, w0)), exact, strict=True):
        atol = 1e-5 * wanted.abs().max().item()
        torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-5, atol=atol)


def test_sums_by_place_are_summed_once_without_their_factors() -> None:
    """Four of one set of dims, as the gradient of a batch norm has."""
    x0, w0 = torch.randn(SHAPE), torch.randn(CHANNELS)
    x, w = like(x0, w0)
    terms = [x, weighted(x, w), call("mul", x, weighted(x, w)), call("neg", call("mul", x, x))]
    program = fusion([x, w], *(total(tv, 0, 2) for tv in terms))
    made = share_sums(program, machine(1), lambda tv: tv.shape == (CHANNELS,))
    assert sums_of(made) == [SHAPE, SHAPE]
    assert "segment_set" not in str(made)
    exact = evaluate(program, (x0.double(), w0.double()))
    for found, wanted in zip(evaluate(made, (x0, w0)), exact, strict=True):
        atol = 1e-5 * wanted.abs().max().item()
        torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-5, atol=atol)


COLUMNS = IMAGES * CHANNELS, PLACES


def test_sums_down_columns_are_as_few_as_they_are_without_factors_of_a_column() -> None:
    """Of the four of a batch norm's gradient two are summed; nothing is stored before it must."""
    x0, g0, w0, b0 = torch.randn(COLUMNS), torch.randn(COLUMNS), *torch.randn(2, PLACES)
    x, g, w, b = like(x0, g0, w0, b0)
    away, scaled = call("sub", x, b), call("mul", g, w)
    terms = [g, call("mul", call("mul", away, w), g), call("mul", away, scaled)]
    terms.append(call("neg", call("mul", w, scaled)))
    program = fusion([x, g, w, b], *(total(tv, 0) for tv in terms))
    made = share_sums(program, machine(1), nowhere)
    assert sums_of(made) == [COLUMNS, COLUMNS]
    assert "segment_set" not in str(made)
    exact = evaluate(program, [t.double() for t in (x0, g0, w0, b0)])
    for found, wanted in zip(evaluate(made, (x0, g0, w0, b0)), exact, strict=True):
        atol = 1e-5 * wanted.abs().max().item()
        torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-5, atol=atol)


def test_what_follows_from_such_a_sum_is_its_product_with_the_factor() -> None:
    x, w = tensor(DataType.Float, *COLUMNS), tensor(DataType.Float, PLACES)
    made = share_sums(fusion([x, w], total(x, 0), total(call("mul", x, w), 0)), machine(1), nowhere)
    assert str(made).count("= sum(") == 1
    assert "mul(T2, " in str(made)


def with_gradient(x: TensorView, w: TensorView, count: int) -> tuple[TensorView, ...]:
    """A product that is stored less the sums of its groups, and its sums over images."""
    images, channels, places = x.shape
    product = call("mul", x, call("sin", x))
    weights = expand(reshape(w, 1, channels, 1), *x.shape)
    groups = images, channels // count, count, places
    of_groups = total(reshape(call("mul", weights, product), *groups), 2, 3)
    spread = expand(reshape(of_groups, images, channels // count, 1, 1), *groups)
    return call("sub", reshape(product, *groups), spread), total(product, 0, 2)


def test_sums_of_a_group_meet_in_the_block_that_stores_what_needs_them() -> None:
    x, w = tensor(DataType.Float, *SHAPE), tensor(DataType.Float, CHANNELS)
    made = str(share_sums(fusion([x, w], *with_gradient(x, w, 5)), machine(1), nowhere))
    sums = [line.strip() for line in made.splitlines() if "= sum(" in line]
    assert sums == [
        "T6: f32[i6, i7, i5, r256] = sum(T5, dims=[3])",
        "T13: f32[i6, i7, r5] = sum(T12, dims=[2], met=5)",
        "T17: f32[r6, i7, i5] = sum(T6, dims=[0])",
    ]
    assert made.count("mul(T0, T2)") == 1  # what is stored is what is summed
    assert "segment_set" not in made


def test_results_of_sums_that_meet_stay_what_they_are() -> None:
    x0, w0 = torch.randn(SHAPE), torch.randn(CHANNELS)
    x, w = like(x0, w0)
    program = fusion([x, w], *with_gradient(x, w, 7))
    made = share_sums(program, machine(1), nowhere)
    assert "met=7" in str(made)
    exact = evaluate(program, (x0.double(), w0.double()))
    for found, wanted in zip(evaluate(made, (x0, w0)), exact, strict=True):
        atol = 1e-5 * wanted.abs().max().item()
        torch.testing.assert_close(found.double(), wanted.double(), rtol=1e-5, atol=atol)


@pytest.mark.parametrize("shape", [(6, 35, 40000), (2, 200, 400)], ids=["long", "many"])
def test_sums_of_what_no_block_holds_are_stored_first(shape: tuple[int, ...]) -> None:
    x, w = tensor(DataType.Float, *shape), tensor(DataType.Float, shape[1])
    count = 100 if shape[1] == 200 else 5
    made = str(share_sums(fusion([x, w], *with_gradient(x, w, count)), machine(1), nowhere))
    assert "segment_set" in made
    assert "met=" not in made


def test_sums_of_rows_that_are_no_neighbours_are_stored_first() -> None:
    x = tensor(DataType.Float, 6, 35, 256)
    spread = expand(reshape(total(x, 0, 2), 1, 35, 1), 6, 35, 256)
    made = str(share_sums(fusion([x], call("sub", x, spread), total(x, 1, 2)), machine(1), nowhere))
    assert "segment_set" in made


KEPT: dict[str, Build] = {
    "one set of dims": lambda x, w: (total(x, 0, 2), total(call("sin", x), 0, 2)),
    "one set of dims, with a factor that differs in them": lambda x, w: (
        total(x, 1, 2),
        total(weighted(x, w), 1, 2),
    ),
    "one sum": lambda x, w: (total(weighted(x, w), 0, 2),),
    "nothing in common": lambda x, w: (total(x, 2), total(x, 0)),
    "three, of which all have nothing": lambda x, w: (total(x, 0, 2), total(x, 2), total(x, 0, 1)),
    "few terms in common": lambda x, w: (total(x, 0), total(x, 0, 2)),
    "dims that are no parts of each other": lambda x, w: (
        total(reshape(x, 30, 7, PLACES), 1, 2),
        total(reshape(x, 21, 10, PLACES), 1, 2),
    ),
    "half precision": lambda x, w: (
        total(call("cast", x, dtype=DataType.Half), 0, 2),
        total(call("cast", x, dtype=DataType.Half), 1, 2),
    ),
    "maxima": lambda x, w: (call("max", x, dims=(0, 2)), call("max", x, dims=(1, 2))),
}


@pytest.mark.parametrize("name", KEPT)
def test_others_stay(name: str) -> None:
    x, w = tensor(DataType.Float, *SHAPE), tensor(DataType.Float, CHANNELS)
    program = fusion([x, w], *KEPT[name](x, w))
    assert share_sums(program, machine(1), nowhere) is program


def test_sums_of_other_planes_stay() -> None:
    x, y = tensor(DataType.Float, *SHAPE), tensor(DataType.Float, *SHAPE)
    program = fusion([x, y], total(x, 0, 2), total(y, 1, 2))
    assert share_sums(program, machine(1), nowhere) is program


def test_sums_of_a_permutation_share_nothing_with_those_of_what_it_is_one_of() -> None:
    """Though their sizes have: half of the places of a channel, all channels of a place."""
    x = tensor(DataType.Float, 8, 32, 64)
    program = fusion([x], total(x, 0, 2), total(permute(x, 0, 2, 1), 2))
    assert share_sums(program, machine(1), nowhere) is program


@pytest.mark.parametrize("multiprocessors", [2 * IMAGES * CHANNELS, 2])
def test_small_planes_and_few_rows_stay(multiprocessors: int) -> None:
    x, w = tensor(DataType.Float, *SHAPE), tensor(DataType.Float, CHANNELS)
    program = fusion([x, w], *group_sums(x, w))
    assert IMAGES * CHANNELS * PLACES < 2 * MIN_PLANE
    assert share_sums(program, machine(multiprocessors), nowhere) is program


def test_a_factor_that_varies_with_what_is_common_stays_in_the_terms() -> None:
    x0, y0 = torch.randn(SHAPE), torch.randn(IMAGES, PLACES)
    x, y = like(x0, y0)
    terms = call("mul", x, expand(unsqueeze(y, 1), *SHAPE))
    made = share_sums(fusion([x, y], total(terms, 1, 2), total(x, 0, 2)), machine(1), nowhere)
    assert sums_of(made).count(SHAPE) == 2
    found, _ = evaluate(made, (x0, y0))
    exact = (x0.double() * y0.double()[:, None]).sum((1, 2))
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-3)


def test_a_product_that_is_squared_is_a_factor_twice() -> None:
    x, y = torch.rand(64, 8, 4096) + 0.5, torch.rand(64, 8, 4096) + 0.5
    a, b = like(x, y)
    product = call("mul", a, b)
    whole = fusion(
        [a, b], product, total(call("mul", product, product), 1, 2), total(product, 0, 2)
    )
    made = share_sums(whole, machine(8), nowhere)
    assert made is not whole
    for found, exact in zip(evaluate(made, (x, y)), evaluate(whole, (x, y)), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=0)


def test_the_square_of_what_rows_have_one_of_leaves_something_to_sum() -> None:
    x = torch.rand(256, 4096)
    (a,) = like(x)
    sums = expand(unsqueeze(total(a, 1), 1), 256, 4096)
    whole = fusion([a], total(call("sin", a), 1), total(call("mul", sums, sums), 0, 1))
    made = share_sums(whole, machine(8), nowhere)
    for found, exact in zip(evaluate(made, (x,)), evaluate(whole, (x,)), strict=True):
        torch.testing.assert_close(found, exact, rtol=1e-4, atol=0)
