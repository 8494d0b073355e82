"""What warps without any element that equals the row's extremum leave out."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.devices import ORDERS
from tests.kernel.test_rows import along, kernel_of
from tests.programs import H200, check, fusion, like, machine, run, total
from tests.schedule.segments import floats, segment_of
from thunder_fuser import pipeline
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.statements import Accumulate
from thunder_fuser.kernel.templates import draft
from thunder_fuser.options import Options
from thunder_fuser.presegment.split_reductions import split_reductions
from thunder_fuser.runtime.bind import bind

COLUMNS = 4096
Build = Callable[[TensorView, TensorView], TensorView]


def truths(x: TensorView, extremum: str = "max") -> TensorView:
    """Which elements equal that of their row."""
    return call("eq", x, along(call(extremum, x, dims=(1,)), x.shape[1]))


def wide(mask: TensorView, dtype: DataType = DataType.Float) -> TensorView:
    return call("cast", mask, dtype=dtype)


def kernel(made: Build) -> RowKernel:
    x, y = floats(5, COLUMNS), floats(5, COLUMNS)
    return kernel_of(segment_of([x, y], made(x, y)))


def test_a_count_is_left_out_by_warps_whose_largest_is_less() -> None:
    of_row = kernel(lambda x, y: total(wide(truths(x), DataType.Int), 1))
    assert [r.result.name for r in of_row.phases[1].chosen] == ["T1_row"]
    assert "  phase 1, of what equals T1_row\n" in str(of_row)
    text = emit(of_row).text
    assert "if (!(T1_part < T1_row)) {" in text
    assert text.index("if (!(T1_part < T1_row)) {") > text.index("const float T1_row")


def largest(x: TensorView, y: TensorView) -> TensorView:
    """What has the largest size of `x * y`."""
    return wide(truths(call("abs", call("mul", x, y))))


CHOSEN: dict[str, Build] = {
    "a product": lambda x, y: call("mul", y, call("mul", largest(x, y), x)),
    "negated": lambda x, y: call("neg", call("mul", largest(x, y), y)),
    "a sign": lambda x, y: call("mul", wide(truths(x)), call("sign", y)),
    "the smallest": lambda x, y: wide(truths(x, "min")),
    "either of two": lambda x, y: call("mul", wide(truths(x)), wide(truths(x, "min"))),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_so_is_a_sum_of_what_others_multiply_by_0(name: str) -> None:
    assert len(kernel(lambda x, y: total(CHOSEN[name](x, y), 1)).phases[-1].chosen) == 1


def test_a_phase_of_two_sums_is_done_where_one_has_terms() -> None:
    def both(x: TensorView, y: TensorView) -> TensorView:
        return call("add", *(total(wide(truths(x, e)), 1) for e in ("max", "min")))

    (_, last) = kernel(both).phases
    assert len(last.chosen) == 2
    assert "_row) || " in emit(kernel(both)).text


LEFT: dict[str, Build] = {
    "a sum of others too": lambda x, y: call("add", wide(truths(x)), y),
    "what equals the largest of others": lambda x, y: wide(
        call("eq", y, along(call("max", x, dims=(1,)), COLUMNS))
    ),
    "what is less": lambda x, y: wide(call("lt", x, along(call("max", x, dims=(1,)), COLUMNS))),
    "what equals a sum": lambda x, y: wide(call("eq", x, along(total(x, 1), COLUMNS))),
    "a number that may be infinite": lambda x, y: call("mul", wide(truths(call("abs", x))), y),
    "one that may be the least": lambda x, y: call("mul", wide(truths(x)), x),
    "one of which sizes are quotients": lambda x, y: call(
        "mul", wide(truths(call("abs", call("div", y, x)))), x
    ),
}


@pytest.mark.parametrize("name", LEFT)
def test_other_sums_are_of_all_warps(name: str) -> None:
    assert not any(p.chosen for p in kernel(lambda x, y: total(LEFT[name](x, y), 1)).phases)


def test_so_are_those_of_rows_within_a_warp() -> None:
    x = floats(500, 64)
    segment = segment_of([x], total(wide(truths(x)), 1))
    assert not any(phase.chosen for phase in kernel_of(segment).phases)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device", "wide_host")
@pytest.mark.parametrize("columns", [1024, 4097, 33_001])
@pytest.mark.parametrize("is_walked", [False, True])
def test_the_gradient_of_the_largest_size(columns: int, is_walked: bool) -> None:
    """Sizes that several elements have, of rows that end in others, and of some that are not
    finite, which others' zeros are multiplied by."""
    x0 = torch.randint(-40, 40, (18, columns)).float()
    y0 = torch.randint(1, 8, (18, columns)).float()
    x0[1, -1], x0[2, 0], x0[3, 7], x0[4, 9] = 999.0, -999.0, torch.nan, -torch.inf
    x0[5, 5], y0[5, 5], x0[6, -1], y0[6, 0] = 0.0, torch.inf, torch.inf, torch.nan
    x, y = like(x0, y0)
    of_size = largest(x, y)
    terms = call("mul", y, call("mul", of_size, call("sign", call("mul", x, y))))
    count = along(total(wide(of_size, DataType.Int), 1), columns)
    made = call("add", call("add", terms, along(total(terms, 1), columns)), wide(count))
    check(fusion([x, y], made, *[total(terms, 0)] * is_walked), x0, y0, orders=ORDERS)


@pytest.mark.usefixtures("device", "wide_host")
@pytest.mark.parametrize("beyond", [torch.inf, -torch.inf, torch.nan])
def test_zeros_times_what_is_not_finite_are_no_number(beyond: float) -> None:
    """Wherever it is: a row's largest is first, what is not finite is of the last warp."""
    x0, y0 = torch.rand(4, COLUMNS), torch.rand(4, COLUMNS)
    x0[:, 0], y0[1, -1] = 2.0, beyond
    x, y = like(x0, y0)
    summed = total(call("mul", wide(truths(call("abs", x))), y), 1)
    check(fusion([x, y], summed), x0, y0)
    check(fusion([x, y], summed), x0, y0, options=Options(tune="off"))
    assert run(fusion([x, y], summed), x0, y0)[0].isnan().tolist() == [False, True, False, False]


def walked(made: Build, *, strict: bool = False) -> RowKernel:
    """Rows that are stored with what is made of them, beside the sums of that down the columns."""
    both = torch.empty(4096, COLUMNS), torch.empty(4096, COLUMNS)
    x, y = like(*both)
    terms = made(x, y)
    stored = call("add", terms, call("mul", x, along(total(terms, 1), COLUMNS)))
    program = split_reductions(
        fusion([x, y], stored, total(terms, 0)), machine(8, H200.max_cluster)
    )
    bound = bind(program, both)
    first, *_ = pipeline.cut_region(
        bound.fusion, bound.layouts, machine(8, H200.max_cluster), strict=strict
    ).segments
    found = draft(first, H200, strict).lower(strict)
    assert isinstance(found, RowKernel)
    assert found.sums
    return found


def test_what_it_would_add_behind_the_phases_is_left_out_too() -> None:
    of_row = walked(CHOSEN["a product"])
    assert of_row.unchosen is not None
    assert "  final, of nothing that equals T4_row\n" in str(of_row)
    assert not any(isinstance(s, Accumulate) for s in of_row.unchosen.scope.statements)
    assert emit(of_row).text.count("if (!(T4_part < T4_row)) {") == 2


def test_but_not_what_others_add() -> None:
    assert walked(LEFT["a sum of others too"]).unchosen is None


@pytest.mark.parametrize("strict", [False, True])
def test_what_a_row_has_one_of_is_finite_unless_roundings_are_kept(strict: bool) -> None:
    def scaled(x: TensorView, y: TensorView) -> TensorView:
        return call("mul", largest(x, y), along(total(y, 1), COLUMNS))

    assert (walked(scaled, strict=strict).unchosen is None) is strict
