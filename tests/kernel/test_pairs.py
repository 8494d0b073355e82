"""Which reductions take 16-bit elements two at a time."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.devices import ORDERS
from tests.programs import H200, STRICT, chain, check, expand, fusion, like, total, unsqueeze
from tests.schedule.segments import halves, segment_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.pairs import beside_pairs
from thunder_fuser.kernel.row_ir import ReducePhase
from thunder_fuser.kernel.rows import lower_rows
from thunder_fuser.kernel.scopes import print_pairs, print_scope
from thunder_fuser.schedule import rows


def first_phase(x: TensorView, *outputs: TensorView) -> tuple[ReducePhase, str]:
    """And what it does beside its pairs, printed."""
    kernel = lower_rows(rows.schedule(segment_of([x], *outputs), H200), strict=False)
    phase = kernel.phases[0]
    return phase, dedent(
        "\n".join(print_scope(beside_pairs(phase.scope, phase.pairs), kernel.names))
    )


def cast(x: TensorView) -> TensorView:
    return call("cast", x, dtype=DataType.Float)


def test_the_largest_of_a_row_is_taken_in_pairs() -> None:
    x = halves(1000, 400)
    phase, beside = first_phase(x, call("max", x, dims=(1,)))
    ((pairs,), (reduction,)) = phase.pairs, phase.reductions
    assert (pairs.accumulator, pairs.vector) == (reduction.accumulator, "v0[k]")
    assert beside == ""


def test_the_largest_distance_from_zero_is_taken_in_pairs() -> None:
    x = halves(1000, 400)
    phase, beside = first_phase(x, call("max", chain(x, "abs"), dims=(1,)))
    assert [print_pairs(p) for p in phase.pairs] == ["T2_part in pairs of sizes of v0[k]"]
    assert beside == ""


def test_what_others_read_of_an_element_stays() -> None:
    x = halves(1000, 400)
    phase, beside = first_phase(x, call("max", x, dims=(1,)), total(chain(cast(x), "neg"), 1))
    assert [p.op.name for p in phase.pairs] == ["max"]
    assert beside == dedent("""\
        T0_0: f32 = v0[k][1*lane + 0]
        T3_0: f32 = neg(T0_0)
        T4_part sum= T3_0""")


def test_what_holds_a_loaded_index_stays() -> None:
    x = halves(1000, 400)
    index = call("cast", x, dtype=DataType.Int)
    others = cast(call("take_along_axis", x, index, dim=1))
    _, beside = first_phase(x, call("max", x, dims=(1,)), total(others, 1))
    assert beside == dedent("""\
        T0_0: f32 = v0[k][1*lane + 0]
        T2_0: i64 = convert(T0_0, i64)
        T2_1: i64 = in_range(T2_0, 400)
        T0_1: f32 = T0[400*group + T2_1]
        T5_part sum= T0_1""")


@pytest.mark.parametrize("name", ["sum", "largest of negatives"])
def test_other_sums_and_what_is_computed_are_taken_one_by_one(name: str) -> None:
    x = halves(1000, 400)
    result = total(x, 1) if name == "sum" else call("max", chain(cast(x), "neg"), dims=(1,))
    phase, _ = first_phase(x, result)
    assert phase.pairs == ()
    assert beside_pairs(phase.scope, phase.pairs) is phase.scope


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("columns", [34, 64, 257, 400, 1003, 4100, 70000])
def test_values_and_missing_numbers_are_eagers(columns: int, dtype: torch.dtype) -> None:
    x = torch.randn(37, columns).to(dtype)
    x[1], x[2], x[3, columns // 2], x[4, 0] = -torch.inf, -3, torch.nan, torch.nan
    x[5, -1], x[6, 1], x[7, -2] = torch.nan, torch.inf, -torch.inf
    x[8], x[9] = 2.0**-20, -0.0  # below what f16 is normal from
    (a,) = like(x)
    sizes = call("max", chain(a, "abs"), dims=(1,))
    program = fusion([a], *(call(op, a, dims=(1,)) for op in ("max", "min")), sizes)
    check(program, x, orders=ORDERS)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", [(5, 40, 64), (3, 150, 66), (9, 33, 196)])
def test_columns_that_are_kept_have_eagers_values(
    shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    x = torch.randn(shape).to(dtype)
    x[0, 3, 5], x[1, :, 7], x[2, 1], x[0, -1, 0] = torch.nan, -torch.inf, torch.inf, 100
    (a,) = like(x)
    top = call("max", a, dims=(1,))
    below = call("sub", a, expand(unsqueeze(top, 1), *shape))
    plan = check(
        fusion([a], top, below, call("max", chain(a, "abs"), dims=(1,))), x, options=STRICT
    )
    assert plan.launches == 1
