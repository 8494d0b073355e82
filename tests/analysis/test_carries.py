"""Digits of a sum without the carries of one of its terms: the same values up to the first."""

from __future__ import annotations

import random
from itertools import product

import pytest

from thunder_fuser.analysis.carries import behind, carry_of, straight
from thunder_fuser.analysis.digits import (
    Form,
    Loaded,
    add,
    atom,
    combine,
    divmod_form,
    evaluate,
    gathered,
    scale,
    shift,
    unflatten,
)
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import tensor
from thunder_fuser.ir.domain import axis

VECTOR, LANE = axis(60), axis(4)
FLAT = combine(atom(VECTOR), atom(LANE), 4)


def test_values_are_the_same_on_either_side_of_the_end_of_a_row() -> None:
    rng, met = random.Random(), 0
    for _ in range(60):
        sizes = [rng.randint(1, 9), rng.randint(1, 9), rng.randint(2, 23)]
        start = shift(FLAT, rng.randint(0, 9))
        index = unflatten(start, sizes)
        found = carry_of(index, LANE)
        if found is None:
            continue
        met += 1
        made = [straight(form, LANE) for form in index]
        others = [behind(form, LANE) for form in index]
        for vector, lane in product(range(60), range(4)):
            values = {VECTOR: vector, LANE: lane}
            expected = [evaluate(form, values) for form in index]
            if evaluate(found.place, values) + lane < found.modulus:
                assert [evaluate(form, values) for form in made] == expected, (sizes, vector, lane)
            elif found.modulus >= LANE.size:  # so it is the first end
                assert [evaluate(form, values) for form in others] == expected, (sizes, vector)
    assert met > 15


def test_rows_and_columns_share_the_carry_of_the_shortest_row() -> None:
    plane, row, column = unflatten(FLAT, [5, 5, 11])
    found = carry_of((plane, row, column), LANE)
    assert found is not None
    assert (found.modulus, found.start) == (11, scale(atom(VECTOR), 4))
    assert straight(column, LANE) == add(divmod_form(scale(atom(VECTOR), 4), 11)[1], atom(LANE))
    assert LANE not in straight(row, LANE).bases | straight(plane, LANE).bases


def test_the_index_of_what_is_loaded_counts_too() -> None:
    row, column = unflatten(FLAT, [22, 11])
    chosen = gathered(Loaded(tensor(DataType.Int, 22), (row,), 50))
    found = carry_of((chosen, column), LANE)
    assert found is not None
    assert found.modulus == 11


def test_what_lies_dense_is_one_sum_again() -> None:
    row, column = unflatten(FLAT, [22, 11])
    offset = add(scale(straight(row, LANE), 11), straight(column, LANE))
    assert offset == add(scale(atom(VECTOR), 4), atom(LANE))


@pytest.mark.parametrize(
    "forms",
    [
        (FLAT,),
        (divmod_form(FLAT, 11)[1], divmod_form(FLAT, 7)[1]),
        (divmod_form(FLAT, 11)[1], divmod_form(shift(FLAT, 1), 11)[1]),
        (divmod_form(add(scale(atom(VECTOR), 5), scale(atom(LANE), 3)), 11)[1],),
        (Form(3),),
    ],
    ids=["no division", "rows of two lengths", "two starts", "strided lanes", "a constant"],
)
def test_other_forms_have_no_carry_in_common(forms: tuple[Form, ...]) -> None:
    assert carry_of(forms, LANE) is None
