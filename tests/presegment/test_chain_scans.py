"""Which running sums are marked as rows that blocks share."""

from __future__ import annotations

import pytest

from tests.programs import machine
from thunder_fuser.analysis.reductions import column_shape, row_shape
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.presegment.chain_scans import chain_scans

SMS = 132


def scanned(*shape: int, dim: int) -> Fusion:
    x = tensor(DataType.Float, *shape)
    return Fusion((x,), (call("cumsum", x, dim=dim, reverse=True),))


def test_shared_rows_are_columns_of_one_element() -> None:
    program = scanned(2, 3, 40000, dim=2)
    made = chain_scans(program, machine(SMS))
    assert str(made).splitlines()[1] == (
        "  T1: f32[i2, i3, i40000] = cumsum(T0, dim=2, reverse=True, chained=1)"
    )
    assert row_shape(program.outputs[0]) == column_shape(made.outputs[0])[::-1] == (6, 40000)
    assert row_shape(made.outputs[0]) is None


@pytest.mark.parametrize(
    ("shape", "dim", "is_shared"),
    [
        ((1, 65537), 1, True),  # a prime
        ((131, 1 << 20), 1, True),
        ((SMS, 1 << 20), 1, False),  # rows enough
        ((1, 32767), 1, False),  # sooner walked
        ((1 << 16, 64), 0, False),  # columns as they are
    ],
)
def test_rows_are_shared_where_they_are_long_and_few(
    shape: tuple[int, ...], dim: int, is_shared: bool
) -> None:
    program = scanned(*shape, dim=dim)
    assert (chain_scans(program, machine(SMS)) is not program) == is_shared
