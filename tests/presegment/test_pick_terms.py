"""Which sums have one term that an index chooses, and that their values stay."""

from __future__ import annotations

import pytest
import torch

from tests.programs import chain, check, expand, full, fusion, ints, like, total, unsqueeze
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.options import Options
from thunder_fuser.presegment.pick_terms import pick_terms
from thunder_fuser.runtime.evaluate import evaluate

ROWS, CLASSES = 7, 33
INDEX = torch.tensor([0, 32, 5, -1, 33, 17, 5])  # of which two are no places


def places(dim: int, start: int = 0) -> TensorView:
    length = (sc.constant((CLASSES, ROWS)[1 - dim]),)
    count = call("iota", sc.constant(start), sc.constant(1), length=length, dtype=DataType.Int)
    return call("broadcast", count, is_broadcast_dim=(dim == 1, dim == 0))


def chosen(index: TensorView, value: TensorView, start: int = 0) -> TensorView:
    mask = call("eq", places(1, start), expand(unsqueeze(index, 1), ROWS, CLASSES))
    return call("where", mask, value, sc.constant(0.0))


def picked(program: Fusion) -> bool:
    return pick_terms(program) is not program


def test_what_rows_have_one_of_is_read_by_no_sum() -> None:
    index, value = INDEX, torch.randn(ROWS)
    i, v = like(index, value)
    program = fusion(
        [i, v], call("sum", chosen(i, expand(unsqueeze(v, 1), ROWS, CLASSES)), dims=(1,))
    )
    made = pick_terms(program)
    assert not any(tv.is_of("sum", "take_along_axis") for tv in made.tensors)
    (found,) = evaluate(made, [index, value])
    assert torch.equal(found, torch.where((index >= 0) & (index < CLASSES), value, 0))


@pytest.mark.parametrize("classes", [19, 32])
@pytest.mark.parametrize("is_beside", [True, False])
def test_what_columns_have_one_of_is_picked_if_threads_share_it(
    classes: int, is_beside: bool
) -> None:
    index, value = torch.tensor([0, 18, -1, 5, 40, 7]), torch.randn(6)
    i, v = like(index, value)
    count = call(
        "iota", sc.constant(0), sc.constant(1), length=(sc.constant(classes),), dtype=DataType.Int
    )
    down = call("broadcast", count, is_broadcast_dim=(False, True))
    mask, all_of = (expand(unsqueeze(tv, 0), classes, 6) for tv in (i, v))
    terms = call("where", call("eq", down, mask), all_of, sc.constant(0.0))
    others = [call("max", all_of, dims=(0,))] if is_beside else []
    program = fusion([i, v], call("sum", terms, dims=(0,)), *others)
    made = pick_terms(program)
    assert (made is program) == (classes == 19 and not is_beside)
    for found, expected in zip(
        *(evaluate(f, [index, value]) for f in (made, program)), strict=True
    ):
        assert torch.equal(found, expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_an_element_of_what_is_scaled_is_taken(dtype: torch.dtype) -> None:
    index, x, w = INDEX, torch.randn(ROWS, CLASSES, dtype=dtype), torch.randn(CLASSES)
    i, a, b = like(index, x, w)
    terms = call(
        "neg",
        call("mul", expand(b, ROWS, CLASSES), call("cast", chosen(i, a), dtype=DataType.Float)),
    )
    program = fusion([i, a, b], call("sum", terms, dims=(1,)))
    made = pick_terms(program)
    assert not any(tv.is_of("sum") for tv in made.tensors)
    torch.testing.assert_close(*evaluate(made, [index, x, w]), *evaluate(program, [index, x, w]))
    plan = check(program, index, x, w)
    assert plan.launches == 1


def test_other_sums_stay() -> None:
    index, x, of_columns = INDEX, torch.randn(ROWS, CLASSES), torch.arange(CLASSES)
    i, a, j = like(index, x, of_columns)
    moved = call("sum", chosen(i, a, start=1), dims=(1,))
    other = call("sum", chosen(i, a), dims=(0,))
    both = call("sum", chosen(i, a), dims=(0, 1))
    mask = call("eq", places(1), expand(j, ROWS, CLASSES))
    differs = call("sum", call("where", mask, a, sc.constant(0.0)), dims=(1,))
    ones = call("where", mask, a, sc.constant(1.0))
    for result in (moved, other, both, differs, call("sum", ones, dims=(1,))):
        assert not picked(fusion([i, a, j], result))
    summed = call("sum", a, dims=(1,))
    of_sums = call("sub", a, expand(unsqueeze(summed, 1), ROWS, CLASSES))
    assert not picked(fusion([i, a], call("sum", chosen(i, of_sums), dims=(1,))))


def test_infinite_factors_stay_with_strict() -> None:
    index, w = torch.full((ROWS,), 3), torch.ones(CLASSES)
    w[8] = torch.inf
    i, b = like(index, w)
    shape = tuple(map(sc.constant, (ROWS, CLASSES)))
    ones = call("full", sc.constant(1.0), shape=shape, dtype=DataType.Float)
    terms = call("mul", expand(b, ROWS, CLASSES), chosen(i, ones))
    check(fusion([i, b], call("sum", terms, dims=(1,))), index, w, options=Options(strict=True))


@pytest.mark.parametrize("case", ["fractions", "flags", "limit", "rank"])
def test_an_index_is_a_place_of_as_many_dims(case: str) -> None:
    """Fractions name no place, flags several, and a limit above the row's is no check of it."""
    x, index = torch.randn(32, 64), torch.randint(128, (32,))
    if case == "fractions":
        index = torch.rand(32) * 64
    elif case == "flags":
        index = index > 64
    elif case == "rank":
        x, index = torch.randn(4, 64, 64), torch.randint(64, (64,))
    a, b = like(x, index)
    rows, numbers = (
        index.shape[0],
        call("iota", *ints([0, 1]), length=ints([64]), dtype=DataType.Int),
    )
    kinds = {"fractions": DataType.Float, "flags": DataType.Bool}
    numbers = call("cast", numbers, dtype=kinds.get(case, DataType.Int))
    chosen = call("in_range", b, sc.constant(128)) if case == "limit" else b
    mask = call(
        "eq", expand(unsqueeze(numbers, 0), rows, 64), expand(unsqueeze(chosen, 1), rows, 64)
    )
    dim = x.ndim - 1
    picked_out = total(call("where", mask, a, full(0.0, *x.shape)), dim)
    whole = fusion([a, b], total(chain(a, "exp"), dim), picked_out)
    made = pick_terms(whole)
    for found, exact in zip(evaluate(made, (x, index)), evaluate(whole, (x, index)), strict=True):
        torch.testing.assert_close(found, exact)
