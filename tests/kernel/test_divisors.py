"""What columns divide by is prepared before their rows, and quotients are those of torch."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import check, expand, fusion, like, permute, total, whole
from tests.schedule.segments import floats, segment_of
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.columns import lower_columns
from thunder_fuser.options import Options
from thunder_fuser.schedule import columns
from thunder_fuser.target import HOST


def quotients(x: TensorView, scale: TensorView) -> tuple[TensorView, TensorView]:
    """What is rounded by scales of columns, and its sums."""
    made = call("floor", call("truediv", x, expand(scale, *x.shape)))
    return made, total(made, 0)


def printed(strict: bool) -> str:
    x, scale = floats(40, 64), floats(1, 64)
    planned = columns.schedule(segment_of([x, scale], *quotients(x, scale)), HOST)
    assert len(planned.divisors) == 1
    return str(lower_columns(planned, strict))


def test_a_divisor_of_all_rows_is_made_before_them() -> None:
    before, _, rows = printed(strict=False).partition("  per row\n")
    assert dedent(before).splitlines()[2:] == [
        "  before rows",
        "    v0 = load T1[4*vector], 4 x f32, 16 bytes at a time",
        "    T1_0: f32 = v0[1*lane + 0]",
        "    T1_0_by[lane] = T1_0",
    ]
    assert "truediv(T0_0, T1_0_by[lane])" in rows
    assert "T1_0:" not in rows


def test_a_strict_kernel_divides() -> None:
    text = printed(strict=True)
    assert "before rows" not in text
    assert "truediv(T0_0, T1_0)" in text


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("size", [64, 33])  # several lanes of a thread, and one
@pytest.mark.parametrize("rows", [40, 300])
def test_quotients_are_those_of_torch(rows: int, size: int) -> None:
    x, scale = whole(rows, size), 2.0 ** torch.randint(-3, 4, (1, size))
    program = fusion(values := like(x, scale), *quotients(*values))
    check(program, x, scale, options=Options(tune="off"), orders=ORDERS)


def test_a_function_of_all_rows_is_made_before_them() -> None:
    x, scale = floats(40, 64), floats(1, 64)
    made = call("mul", x, expand(call("exp", scale), *x.shape))
    planned = columns.schedule(segment_of([x, scale], made, total(made, 0)), HOST)
    before, _, rows = str(lower_columns(planned, strict=False)).partition("  per row\n")
    assert "_kept[lane] = " in before
    assert "exp(" in before
    assert "exp(" not in rows


def looked_up(x: TensorView, table: TensorView, index: TensorView, scale: TensorView) -> TensorView:
    """Columns of quotients beside what a table has of each column."""
    found = permute(call("index_select", table, index, dim=0), 1, 0)
    made = call("truediv", call("add", x, found), expand(scale, *x.shape))
    return total(made, 0)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
def test_an_index_that_all_rows_have_is_there_in_each() -> None:
    x, table, scale = whole(40, 64), whole(37, 40), 2.0 ** torch.randint(-3, 4, (1, 64))
    given = [x, table, torch.randint(37, (64,)), scale]
    program = fusion(values := like(*given), looked_up(*values))
    check(program, *given, options=Options(tune="off"), orders=ORDERS)
