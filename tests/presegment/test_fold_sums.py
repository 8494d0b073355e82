"""Reductions of one term."""

from __future__ import annotations

import pytest
import torch

from tests.programs import fusion, like, run, total
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.options import Options
from thunder_fuser.presegment.fold_sums import OF_TERMS, fold_sums


@pytest.mark.parametrize("name", sorted(OF_TERMS))
def test_a_reduction_of_one_term_is_a_copy(name: str) -> None:
    (x,) = like(torch.randn(8, 1, 5, 1))
    text = str(fold_sums(fusion([x], call(name, x, dims=(1, 3)))))
    assert f"{name}(" not in text
    assert "f32[i8, i5] = set(" in text


def test_a_sum_of_flags_counts() -> None:
    x = torch.tensor([[True], [False]])
    (a,) = like(x)
    made = fold_sums(fusion([a], call("sum", a, dims=(1,))))
    assert "sum(" not in str(made)
    assert made.outputs[0].dtype is DataType.Int
    (found,) = run(made, x, options=Options())
    assert found.tolist() == [1, 0]


def test_longer_sums_stay() -> None:
    (x,) = like(torch.randn(8, 1, 5))
    whole = fusion([x], total(x, 1, 2))
    assert fold_sums(whole) is whole
