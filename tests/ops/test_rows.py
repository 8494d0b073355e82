"""Every elementwise row on every dtype it takes: result type, values of the CUDA text, NVRTC."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tests.ops.row_kernels import (
    ELEMENTWISE,
    bits,
    build,
    cast_kernel,
    inputs,
    random_values,
    result_dtype,
    row_kernel,
    rows_of,
    run,
    unit,
)
from tests.programs import compiled_by_nvrtc, ptx_of
from thunder_fuser.dtypes import DataType
from thunder_fuser.ops import OPS, OpDef
from thunder_fuser.ops.definition import Operand
from thunder_fuser.ops.dtype_sets import ALL
from thunder_fuser.runtime.dtypes import TORCH_DTYPES
from thunder_fuser.runtime.evaluate import row_function

DTYPES = tuple(d for d in DataType if d in ALL)
FLOAT8 = tuple(d for d in DataType if d.is_float8)
# Complex functions are composed of real ones, and torch's of others than ours.
COMPLEX_FACTOR = 8
# 2^-14 of the value, what a row's `fast` form may be wrong by.
FAST_ULPS = 2.0**9
FAST_ROWS = {
    "erf",
    "exp",
    "exp2",
    "log1p",
    "reciprocal",
    "sigmoid",
    "silu",
    "sqrt",
    "tanh",
    "div",
    "truediv",
}
# From here on torch's CPU fmod gives NaN where C's and CUDA's are exact.
MAX_FMOD_QUOTIENT = 2.0**20


@pytest.fixture(scope="module")
def generator() -> torch.Generator:
    """Fresh data every run; a failure prints the values."""
    fresh = torch.Generator()
    fresh.seed()
    return fresh


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_dtype_rules_are_torchs(dtype: DataType) -> None:
    differing = []
    for row in rows_of(dtype):
        if row.name == "where":  # torch wants a bool condition, we convert
            continue
        operands = [torch.ones(3, dtype=TORCH_DTYPES[dtype])] * len(row.operands)
        found = row_function(row)(*operands).dtype
        if found is not TORCH_DTYPES[result_dtype(row, dtype)]:
            differing.append((row.name, found, result_dtype(row, dtype)))
    assert not differing


FORMS = [(form, dtype) for form in ("cuda", "strict") for dtype in DTYPES]
FORMS += [("fast", DataType.Float), ("fast", DataType.BFloat16), ("fast", DataType.Half)]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(("form", "dtype"), FORMS, ids=str)
def test_expressions_of_rows_compute_torchs_values(
    form: str, dtype: DataType, tmp_path: Path, generator: torch.Generator
) -> None:
    rows = [row for row in rows_of(dtype) if getattr(row, form)]
    launch = build(unit([row_kernel(row, dtype, form) for row in rows]), tmp_path)
    failures = []
    for row in rows:
        operands = inputs(row, dtype, generator)
        if form == "fast":
            operands = [_flushed(x) for x in operands]
        found = run(launch, f"row_{row.name}", result_dtype(row, dtype), operands)
        ulps = FAST_ULPS if form == "fast" else row.ulps
        failures += _mismatches(row, operands, found, _torch(row, dtype, operands), ulps)
    assert not failures, "\n".join(failures)


def _flushed(operand: Tensor) -> Tensor:
    """Subnormal f32 values as 0, which is how the hardware's approximations take them."""
    return torch.where(operand.float().abs() < torch.finfo(torch.float32).tiny, 0, operand)


def test_fast_forms_use_the_hardwares_approximations() -> None:
    fast = {row.name: row_kernel(row, DataType.Float, "fast") for row in ELEMENTWISE if row.fast}
    assert set(fast) == FAST_ROWS
    ptx = ptx_of(unit(list(fast.values())))
    for instruction in (
        "ex2.approx.ftz.f32",
        "lg2.approx.ftz.f32",
        "rcp.approx.ftz.f32",
        "sqrt.approx.ftz.f32",
        "div.full.f32",
    ):
        assert instruction in ptx
    for exact in ("div.rn", "rcp.rn", "sqrt.rn"):
        assert exact not in ptx


def _torch(row: OpDef, dtype: DataType, operands: list[Tensor]) -> Tensor:
    wanted = row.operand_dtypes([Operand(dtype, False)] * len(operands))
    return row_function(row)(
        *(x.to(TORCH_DTYPES[w]) for x, w in zip(operands, wanted, strict=True))
    )


def _mismatches(
    row: OpDef, operands: list[Tensor], found: Tensor, wanted: Tensor, ulps: float
) -> list[str]:
    is_wrong = ~((found == wanted) | (found.isnan() & wanted.isnan()))
    if found.dtype.is_floating_point or found.dtype.is_complex:
        is_wrong &= ~(_error(found, wanted) <= _tolerance(ulps, operands, wanted))
    if row.name in ("fmod", "mod", "remainder") and found.dtype.is_floating_point:
        is_wrong &= (operands[0] / operands[1]).abs() < MAX_FMOD_QUOTIENT
    return [
        f"{row.name}({', '.join(str(x[k].item()) for x in operands)}) is {found[k].item()}, "
        f"torch: {wanted[k].item()}"
        for k in is_wrong.nonzero()[:3, 0].tolist()
    ]


def _error(found: Tensor, wanted: Tensor) -> Tensor:
    wide = torch.complex128 if found.dtype.is_complex else torch.float64
    return (found.to(wide) - wanted.to(wide)).abs()


def _tolerance(ulps: float, operands: list[Tensor], wanted: Tensor) -> Tensor:
    """`ulps` of the result; of the largest operand where a sum of three may cancel."""
    limits = torch.finfo(wanted.dtype)
    is_narrow = limits.bits == 16
    ulps = min(ulps, 1.0) if is_narrow else ulps
    if wanted.dtype.is_complex:
        ulps *= COMPLEX_FACTOR
    scale = wanted.abs().double()
    if len(operands) > 2:
        for x in operands:
            scale = scale.maximum(x.abs().double().nan_to_num(0, 0, 0))
    # torch flushes some subnormal results on the CPU
    return ulps * limits.eps * scale + (2 * limits.tiny if ulps else 0)


@pytest.mark.parametrize("dtype", DataType, ids=str)
def test_nvrtc_accepts_all_rows_for_sm_90a(dtype: DataType) -> None:
    casts = [cast_kernel(dtype, target) for target in DataType]
    rows = rows_of(dtype)
    strict = [row_kernel(row, dtype, "strict") for row in rows if row.strict]
    renamed = [text.replace(" row_", " strict_") for text in strict]
    kernels = [row_kernel(row, dtype) for row in rows]
    assert len(compiled_by_nvrtc(unit([*kernels, *renamed, *casts]), "sm_90a")) > 0


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("source", DataType, ids=str)
def test_casts_are_torchs(source: DataType, tmp_path: Path, generator: torch.Generator) -> None:
    launch = build(unit([cast_kernel(source, target) for target in DataType]), tmp_path)
    bounds = (0.0, 120.0) if source is DataType.UInt8 else (-120.0, 120.0)
    values = random_values(bounds, source, generator)
    if source.is_floating or source.is_complex:
        values = torch.cat([values, torch.tensor([0.0, -0.0, 0.4, -0.6, 1e-7], dtype=values.dtype)])
    elif source.is_integral:
        limits = torch.iinfo(values.dtype)
        values = torch.cat([values, torch.tensor([limits.min, limits.max], dtype=values.dtype)])
    for target in DataType:
        found = run(launch, f"cast_{source}_{target}", target, [values])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns that imaginary parts are dropped
            wanted = values.to(TORCH_DTYPES[target])
        assert torch.equal(bits(found), bits(wanted)), f"{source} to {target}"


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("target", [DataType.BFloat16, DataType.Half], ids=str)
def test_narrowing_rounds_every_float_as_torch(
    target: DataType, tmp_path: Path, generator: torch.Generator
) -> None:
    launch = build(unit([cast_kernel(DataType.Float, target)]), tmp_path)
    bits = torch.randint(-(2**31), 2**31, (200_003,), dtype=torch.int64, generator=generator)
    ties = torch.arange(0, 2**31, 2**11 - 1, dtype=torch.int64) & ~0xFFF | 0x1000
    values = torch.cat([bits, ties, ties + 1, ties - 1]).to(torch.int32).view(torch.float32)
    found = run(launch, f"cast_f32_{target}", target, [values])
    wanted = values.to(TORCH_DTYPES[target])
    assert torch.equal(found.isnan(), wanted.isnan())
    is_number = ~wanted.isnan()
    assert torch.equal(found.view(torch.int16)[is_number], wanted.view(torch.int16)[is_number])


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("target", FLOAT8, ids=str)
def test_8_bits_of_every_16_bit_float_and_of_ties_are_torchs(
    target: DataType, tmp_path: Path, generator: torch.Generator
) -> None:
    sources = (DataType.Float, DataType.BFloat16, DataType.Half)
    launch = build(unit([cast_kernel(source, target) for source in sources]), tmp_path)
    words = torch.randint(-(2**31), 2**31, (200_003,), dtype=torch.int64, generator=generator)
    ties = torch.arange(-(2**31), 2**31, 2**19, dtype=torch.int64)
    near = torch.cat([words, ties, ties + 1, (ties - 1).clamp(-(2**31))]).to(torch.int32)
    every = torch.arange(2**16, dtype=torch.int32).to(torch.int16)
    for source in sources:
        values = (near if source is DataType.Float else every).view(TORCH_DTYPES[source])
        found = run(launch, f"cast_{source}_{target}", target, [values])
        wanted = values.to(TORCH_DTYPES[target])
        differ = bits(found) ^ bits(wanted)
        differ[values.isnan()] &= 0x7F  # a GPU that widens an f16 leaves the sign of a NaN out
        wrong = differ.nonzero()[:3, 0]
        assert wrong.numel() == 0, (source, values[wrong], found[wrong], wanted[wrong])


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("source", FLOAT8, ids=str)
def test_widening_is_exact_for_every_8_bit_float(source: DataType, tmp_path: Path) -> None:
    launch = build(unit([cast_kernel(source, DataType.Float)]), tmp_path)
    values = torch.arange(2**8, dtype=torch.uint8).view(TORCH_DTYPES[source])
    found = run(launch, f"cast_{source}_f32", DataType.Float, [values])
    assert torch.equal(found.nan_to_num(1.5), values.float().nan_to_num(1.5))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("source", [DataType.BFloat16, DataType.Half], ids=str)
def test_widening_is_exact_for_every_16_bit_float(source: DataType, tmp_path: Path) -> None:
    launch = build(unit([cast_kernel(source, DataType.Float)]), tmp_path)
    values = torch.arange(2**16, dtype=torch.int32).to(torch.int16).view(TORCH_DTYPES[source])
    found = run(launch, f"cast_{source}_f32", DataType.Float, [values])
    assert torch.equal(found.nan_to_num(1.5), values.float().nan_to_num(1.5))


@pytest.mark.usefixtures("device")
def test_float_to_integer_saturates_as_the_hardware_does(tmp_path: Path) -> None:
    """PTX ISA, cvt: out of range clamps; NaN is 0, or the smallest integer where 64 bits meet."""
    pairs = [
        (s, t) for s in (DataType.Float, DataType.Double) for t in (DataType.Int32, DataType.Int)
    ]
    launch = build(unit([cast_kernel(s, t) for s, t in pairs]), tmp_path)
    for source, target in pairs:
        values = torch.tensor([1e30, -1e30, float("nan")], dtype=TORCH_DTYPES[source])
        found = run(launch, f"cast_{source}_{target}", target, [values]).tolist()
        limits = torch.iinfo(TORCH_DTYPES[target])
        is_wide = source is DataType.Double or target is DataType.Int
        assert found == [limits.max, limits.min, limits.min if is_wide else 0]


def test_prims_are_members_of_thunders_prim_ids() -> None:
    prims = pytest.importorskip("thunder.core.prims")
    known = {p.name for p in prims.PrimIDs}
    named = [(row.name, prim) for row in OPS.values() for prim in row.prims]
    assert [pair for pair in named if pair[1] not in known] == []
    assert len(named) == len({prim for _, prim in named}), "a prim is claimed by two rows"


def test_every_elementwise_prim_of_the_parity_table_has_a_row() -> None:
    wanted = """
        ABS ACOS ACOSH ASIN ASINH ATAN ATANH BITWISE_NOT CEIL COS COSH ERF ERFC
        ERFCINV ERFINV EXP EXP2 EXPM1 FLOOR ISFINITE LGAMMA LOG LOG10 LOG1P LOG2 NEG
        REAL IMAG RECIPROCAL ROUND RSQRT SIGN SIGNBIT SIN SINH SQRT TAN TANH TRUNC
        CLONE SHALLOW_COPY ADD SUB MUL DIV POW ATAN2 FMOD REMAINDER NEXTAFTER
        MAXIMUM MINIMUM BITWISE_AND BITWISE_OR BITWISE_XOR BITWISE_LEFT_SHIFT
        BITWISE_RIGHT_SHIFT EQ NE GE GT LE LT LERP WHERE CONVERT_ELEMENT_TYPE
        DIGAMMA SUM PROD AMAX AMIN
        """
    have = {prim for row in OPS.values() for prim in row.prims}
    assert set(wanted.split()) <= have


def test_every_op_name_of_the_front_end_has_a_row() -> None:
    unary = """
        abs acos acosh asin asinh atan atanh ceil cos cosh exp exp2 expm1 erf erfc
        erfinv erfcinv floor frac lgamma log log10 log1p log2 neg logical_not
        bitwise_not relu reciprocal round rsqrt set segment_set sign sigmoid signbit
        silu sin sinh sqrt tan tanh trunc isfinite isinf isnan isneginf isposinf
        isreal real imag
        """
    binary = """
        add sub mul div truediv pow maximum minimum eq ne ge gt le lt atan2 fmod
        remainder mod nextafter logical_and logical_or bitwise_and bitwise_or
        bitwise_xor bitwise_left_shift bitwise_right_shift logical_right_shift gcd
        """
    ternary = "where lerp clamp threshold addcmul add_alpha sub_alpha complex cast sum prod max min"
    assert set(f"{unary} {binary} {ternary}".split()) <= set(OPS)


def test_nextafter_steps_in_the_stored_type() -> None:
    row = OPS["nextafter"]
    assert "{s}" in row.cuda
    assert row in ELEMENTWISE
