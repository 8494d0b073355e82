"""The largest of what a rising function makes, found of the largest element."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.kernel.test_rows import along, kernel_of
from tests.programs import chain, fusion, like, run, total
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.analysis.access import demand
from thunder_fuser.analysis.digits import atom
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.scalar import constant
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.rising import risen_from
from thunder_fuser.options import Options

F32 = DataType.Float
SIXTEEN_BITS = [torch.bfloat16, torch.float16]


def capped(x: TensorView, cap: float = 30.0) -> TensorView:
    """In f32."""
    number = constant(cap, F32)
    wide = call("cast", x, dtype=F32)
    return call("mul", number, chain(call("div", wide, number), "tanh"))


def denominator(y: TensorView) -> TensorView:
    """Softmax's."""
    top = along(call("max", y, dims=(1,)), y.shape[1])
    return total(chain(call("sub", y, top), "exp"), 1)


def test_the_function_is_computed_once_a_thread_and_held_nowhere() -> None:
    x = halves(5, 64)
    kernel = kernel_of(segment_of([x], denominator(capped(x))))
    first, *_ = str(kernel).split("  phase 1")
    assert dedent(first.split("  phase 0\n")[1]) == dedent("""\
        T0_0: f32 = v0[k][1*lane + 0]
        T5_most max= T0_0
        T5_most in pairs of v0[k]
        behind T2_0: f32 = div(T5_most, 30.0)
        behind T3_0: f32 = tanh(T2_0)
        behind T4_0: f32 = mul(30.0, T3_0)
        behind T5_part max= T4_0
        T5_row = max(T5_part)
        """)
    assert not any(phase.held for phase in kernel.phases)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", SIXTEEN_BITS)
def test_what_is_held_for_another_sum_of_the_phase_is_computed_of_the_largest_too(
    dtype: torch.dtype,
) -> None:
    x, g = (3 * torch.randn(5, 64)).to(dtype), torch.randn(5, 64).to(dtype)
    tvs = like(x, g)
    y = capped(tvs[0])
    weighted = call("mul", y, along(total(call("mul", y, tvs[1]), 1), 64))
    below = call("sub", y, along(call("max", y, dims=(1,)), 64))
    program = fusion(tvs, call("add", weighted, below))
    text = str(kernel_of(segment_of(tvs, *program.outputs)))
    assert "T4_held[k][lane] = T4_0" in text
    assert "behind T3_1: f32 = tanh(T2_1)" in text
    (found,) = run(program, x, g, options=Options(tune="off"))
    wide = 30 * torch.tanh(x.double() / 30)
    sums = (wide * g.double()).sum(1, keepdim=True)
    exact = wide * sums + wide - wide.amax(1, keepdim=True)
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "number"), [("mul", -0.1), ("mul", 2.0**-30), ("add", 1.0), ("sub", 1.0)]
)
def test_what_falls_or_leaves_few_digits_is_found_of_all_elements(name: str, number: float) -> None:
    x = halves(5, 64)
    made = call(name, call("cast", x, dtype=F32), constant(number, F32))
    assert not kernel_of(segment_of([x], call("max", made, dims=(1,)))).phases[0].risen


def test_so_is_that_of_wider_elements_and_of_fast_functions() -> None:
    """Two floats may be too near to each other for an exact tanh; a fast one has a step."""
    x, y = floats(5, 64), halves(5, 64)
    assert not kernel_of(segment_of([x], call("max", chain(x, "tanh"), dims=(1,)))).phases[0].risen
    made = chain(y, "tanh")
    index = tuple(map(atom, made.logical))
    needs = demand([(made, index)], {y})
    assert risen_from(needs, fast=frozenset()) == (y, index)
    assert risen_from(needs, fast={made}) is None


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", SIXTEEN_BITS)
@pytest.mark.parametrize("cap", [1.0, 0.3, 30.0, 50.0])
def test_a_tanh_keeps_the_order_of_all_numbers_of_16_bits(cap: float, dtype: torch.dtype) -> None:
    every = torch.arange(1 << 16, dtype=torch.int32).to(torch.int16).view(dtype)
    x = every[~every.isnan()].sort().values
    (a,) = like(x)
    (found,) = run(fusion([a], capped(a, cap)), x, options=Options())
    assert bool((found[1:] >= found[:-1]).all())


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", SIXTEEN_BITS)
@pytest.mark.parametrize("columns", [1, 34, 257, 1000, 4097, 20011])
def test_an_extremum_is_one_of_the_elements(columns: int, dtype: torch.dtype) -> None:
    """To the bit, beside numbers that are infinite or none."""
    x = 20 * torch.randn(9, columns).to(dtype)
    x[1], x[2, columns // 2], x[3, 0], x[4, -1] = -torch.inf, torch.nan, torch.inf, -torch.inf
    x[5], x[6] = -0.0, -1000
    (a,) = like(x)
    y = capped(a)
    program = fusion([a], y, *(call(op, y, dims=(1,)) for op in ("max", "min")))
    found, top, low = (t.cpu() for t in run(program, x, options=Options()))
    torch.testing.assert_close(top, found.amax(1), rtol=0, atol=0, equal_nan=True)
    torch.testing.assert_close(low, found.amin(1), rtol=0, atol=0, equal_nan=True)


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("columns", [37, 1000, 4100, 17000, 70001])
def test_sums_below_a_capped_maximum(columns: int) -> None:
    """Of rows that are kept, and of those that are streamed."""
    x = (20 * torch.randn(3, columns)).bfloat16()
    (a,) = like(x)
    wide = 30 * torch.tanh(x.double() / 30)
    exact = (wide - wide.amax(1, keepdim=True)).exp().sum(1)
    for order in ORDERS:
        program = fusion([a], denominator(capped(a)))
        (found,) = run(program, *copies([x]), options=Options(thread_order=order))
        torch.testing.assert_close(found.cpu().double(), exact, rtol=1e-5, atol=0)
