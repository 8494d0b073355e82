"""A reduction of one term is that term."""

from __future__ import annotations

import pytest

from tests.programs import fusion, total
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.presegment.squeeze_sums import OF_TERMS, squeeze_sums

x = tensor(DataType.Float, 8, 1, 1)


@pytest.mark.parametrize("name", sorted(OF_TERMS))
def test_a_reduction_of_one_term_is_a_view(name: str) -> None:
    found = str(squeeze_sums(fusion([x], call(name, x, dims=(1, 2)))))
    assert "squeeze(T0, dims=[1, 2]" in found
    assert f"{name}(" not in found


def test_a_sum_of_small_integers_stays_a_wide_one() -> None:
    narrow = tensor(DataType.Int32, 8, 1)
    found = squeeze_sums(fusion([narrow], total(narrow, 1)))
    assert found.outputs[0].dtype is total(narrow, 1).dtype


def test_others_stay() -> None:
    program = fusion([x], total(x, 0, 1))
    assert squeeze_sums(program) is program
