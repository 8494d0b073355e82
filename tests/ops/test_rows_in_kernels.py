"""All elementwise rows of one dtype as outputs of one fusion, through the whole pipeline.

On the host target in every run; the same on a GPU, against torch on that GPU.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from tests.ops.row_kernels import INTEGER_QUOTIENTS, random_values, rows_of
from tests.programs import check, fusion, like
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops.dtype_sets import ALL
from thunder_fuser.options import Options
from thunder_fuser.program import Program
from thunder_fuser.runtime.dtypes import TORCH_DTYPES
from thunder_fuser.runtime.evaluate import evaluate

SHAPE = (5, 37)
RANGE = (-4.0, 4.0)
# Beyond this many units of f32's last place a 16-bit result would round elsewhere than torch's.
ULPS = 256


@pytest.mark.parametrize("dtype", sorted(ALL, key=str), ids=str)
def test_a_kernel_of_all_rows_computes_what_torch_computes(
    dtype: DataType, device: torch.device
) -> None:
    rows = [row for row in rows_of(dtype) if row.name != "segment_set"]  # forces a cut of its own
    generator = torch.Generator()
    generator.seed()
    values = [random_values(RANGE, dtype, generator, 185).reshape(SHAPE) for _ in range(4)]
    if dtype.is_integral:  # torch raises for a zero divisor
        values[1] = torch.where(values[1] == 0, 3, values[1]).to(values[1].dtype)
    arguments = [v.to(device) for v in values]
    inputs = tuple(tensor(dtype, *SHAPE) for _ in arguments)
    outputs = tuple(call(row.name, *inputs[: len(row.operands)]) for row in rows)
    fusion = Fusion(inputs, outputs)
    found = Program(fusion).run(arguments, Options(strict=True))
    wanted = evaluate(fusion, arguments)
    wrong = [r.name for r, f, w in zip(rows, found, wanted, strict=True) if not _agree(f, w)]
    assert wrong == []


@pytest.mark.parametrize("dtype", sorted(ALL, key=str), ids=str)
def test_numbers_are_operands_on_either_side(dtype: DataType, device: torch.device) -> None:
    number = 3 if dtype.is_integral or dtype is DataType.Bool else -1.25
    x = random_values((1.0, 4.0), dtype, torch.Generator(), 185).to(device)
    t = tensor(dtype, 185)
    outputs: list[TensorView] = []
    for row in rows_of(dtype):
        if len(row.operands) < 2 or sc.python_dtype(number) not in row.dtypes:
            continue
        numbers = [sc.constant(number)] * (len(row.operands) - 1)
        is_legal = not (dtype is DataType.Bool and row.name in INTEGER_QUOTIENTS)
        if is_legal:
            outputs.append(call(row.name, t, *numbers))
        if len(row.operands) == 2 and is_legal:
            outputs.append(call(row.name, *numbers, t))
    fusion = Fusion((t,), tuple(outputs))
    found = Program(fusion).run([x], Options(strict=True))
    wanted = evaluate(fusion, [x])
    pairs = zip(outputs, found, wanted, strict=True)
    assert [str(o.definition) for o, f, w in pairs if not _agree(f, w)] == []


def _agree(found: Tensor, wanted: Tensor) -> bool:
    if found.dtype is not wanted.dtype:
        return False
    if not (found.dtype.is_floating_point or found.dtype.is_complex):
        return torch.equal(found, wanted)
    limits = torch.finfo(found.dtype)
    relative = 2 * limits.eps if limits.bits == 16 else ULPS * limits.eps
    return torch.allclose(found, wanted, rtol=relative, atol=ULPS * limits.eps, equal_nan=True)


def test_a_value_under_a_jump_is_computed_exactly() -> None:
    """round(a / b) may not take a quotient that is a unit of the last place off."""
    bf16 = DataType.BFloat16
    a, b = tensor(bf16, 64), tensor(bf16, 64)
    quotient = call("truediv", a, b)
    values = [torch.rand(64).bfloat16() + 1, torch.rand(64).bfloat16() + 1]
    texts = []
    for output in (quotient, call("round", quotient)):
        plan = Program(Fusion((a, b), (output,))).plan(values, Options())
        texts.append("".join(text for text in plan.sources if text is not None))
    assert "tf::fast_divide(" in texts[0]
    assert "tf::fast_divide(" not in texts[1]


NUMBERS = [3.0, -30.0, 1.4142135, 4096.0, 7e29, 1e-29, 1e-38, float("inf")]


@pytest.mark.parametrize("number", NUMBERS)
def test_a_quotient_by_a_number_is_torchs(number: float, device: torch.device) -> None:
    """By a product with two parts of the reciprocal, which may be a unit off near a middle between
    two numbers, and not where the quotient is a whole one."""
    x = torch.randn(100_003) * 10.0 ** torch.randint(-30, 30, (100_003,))
    x[:6] = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan"), 3e38])
    whole = torch.arange(-5000.0, 5000.0)
    x[10:10_010] = whole * number
    t = tensor(DataType.Float, *x.shape)
    quotient = Fusion((t,), (call("truediv", t, sc.constant(number)),))
    (found,) = Program(quotient).run([x.to(device)], Options())
    wanted = x / torch.tensor(number)
    smallest = torch.finfo(torch.float32).smallest_normal * 2.0**-23
    torch.testing.assert_close(found.cpu(), wanted, rtol=2.0**-23, atol=smallest, equal_nan=True)
    if number in (3.0, -30.0, 4096.0):
        assert torch.equal(found[10:10_010].cpu(), whole)


def test_a_number_divides_by_its_reciprocal_where_that_has_all_digits() -> None:
    t, bf16 = tensor(DataType.Float, 64), tensor(DataType.BFloat16, 64)
    texts = []
    for operand, number in ((t, 30.0), (bf16, 30.0), (t, 1e-38), (t, 0.0)):
        values = [torch.ones(64, dtype=TORCH_DTYPES[operand.dtype])]
        for strict in (False, True):
            quotient = call("truediv", operand, sc.constant(number))
            plan = Program(Fusion((operand,), (quotient,))).plan(values, Options(strict=strict))
            texts.append("".join(text for text in plan.sources if text is not None))
    found = ["tf::divided_by(T0_0" in text for text in texts]
    assert found == [True, False, False, False, False, False, False, False]
    assert "T0_0 * (float(1) / 30.0f)" in texts[2]


@pytest.mark.parametrize("scale", [1e-42, 1e-30, 1.0, 1e30])
@pytest.mark.parametrize("stored", [DataType.Float, DataType.BFloat16])
def test_a_quotient_by_a_sum_of_the_row_is_torchs(
    stored: DataType, scale: float, device: torch.device
) -> None:
    """By a product with the reciprocal of the sum, corrected once if 32 bits are stored."""
    x = torch.randn(33, 1000) * 10.0 ** torch.randint(-30, 30, (33, 1000))
    x[:, :5] = torch.tensor([0.0, -0.0, float("inf"), -float("inf"), float("nan")])
    divisors = torch.randn(33, 1) * scale
    divisors[:3, 0] = torch.tensor([0.0, float("inf"), float("nan")])
    (t, d) = (tensor(DataType.Float, *value.shape) for value in (x, divisors.expand(33, 1000)))
    top = call("max", d, dims=(1,))
    spread = call(
        "broadcast_in_dim", top, shape=tuple(map(sc.constant, x.shape)), broadcast_dims=(0,)
    )
    quotient = call("cast", call("truediv", t, spread), dtype=stored)
    program = Program(Fusion((t, d), (quotient,)))
    arguments = [x.to(device), divisors.expand(33, 1000).contiguous().to(device)]
    plan = program.plan(arguments, Options())
    name = "divided_by_row" if stored is DataType.Float else "fast_divided_by_row"
    assert any(text and f"= tf::{name}(" in text for text in plan.sources)
    (found,) = program.run(arguments, Options())
    smallest = torch.finfo(torch.float32).smallest_normal * 2.0**-23
    wanted, rtol = (x / divisors).to(found.dtype), 2.0**-23
    if stored is DataType.BFloat16:
        smallest, rtol = torch.finfo(torch.float32).smallest_normal, 2.0**-7
    torch.testing.assert_close(found.cpu(), wanted, rtol=rtol, atol=smallest, equal_nan=True)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", [torch.int32, torch.int8], ids=str)
def test_the_largest_of_negated_integers(dtype: torch.dtype) -> None:
    """ptxas 13.0 makes one instruction of max(max(-a, -b), -c), and forgets one of the signs."""
    x = torch.randint(-100, 100, (300, 7), dtype=dtype)
    (tv,) = like(x)
    ends = [call(name, call("neg", tv), dims=(1,)) for name in ("max", "min")]
    check(fusion([tv], *ends), x)
