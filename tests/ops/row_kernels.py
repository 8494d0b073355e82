"""Trivial kernels, one per elementwise row, all those of one dtype in one translation unit.

One thread computes every element, on the host or on the GPU of the test.
"""

from __future__ import annotations

import ctypes
import math
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from cuda.bindings import driver
from torch import Tensor

import thunder_fuser.codegen
from tests.devices import here
from thunder_fuser.codegen.prelude import prelude
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.dtypes import DataType
from thunder_fuser.ops import OPS, Family, OpDef
from thunder_fuser.ops.definition import Operand
from thunder_fuser.options import Options
from thunder_fuser.runtime import nvrtc
from thunder_fuser.runtime.compilation import Unit
from thunder_fuser.runtime.cuda_kernel import target_of
from thunder_fuser.runtime.dtypes import TORCH_DTYPES

HOST_HEADER = Path(thunder_fuser.codegen.__file__).parent / "device" / "host.h"
COMPILE = ("g++", "-std=c++17", "-O1", "-fwrapv", "-ffp-contract=off", "-fPIC", "-shared")
ELEMENTWISE = tuple(row for row in OPS.values() if row.family is Family.POINTWISE)
Launch = Callable[[str, Sequence[Tensor]], None]  # a kernel by name on (result, *operands)
INTEGER_QUOTIENTS = ("div", "fmod", "mod", "remainder")


def rows_of(dtype: DataType) -> list[OpDef]:
    """The elementwise rows that take any operands of `dtype`, the cast left out."""
    rows = (row for row in ELEMENTWISE if dtype in row.dtypes and row.name != "cast")
    return [row for row in rows if not row.checks]


def result_dtype(row: OpDef, dtype: DataType) -> DataType:
    return row.dtype([Operand(dtype, False)] * len(row.operands))


def row_kernel(row: OpDef, dtype: DataType, form: str = "cuda") -> str:
    """extern "C" void row_<name>(y, a0, a1, ..., n). `form` names the row's field to compile."""
    count = len(row.operands)
    wanted = row.operand_dtypes([Operand(dtype, False)] * count)
    result = result_dtype(row, dtype)
    pointers = [f"const {CUDA_TYPES[dtype]}* p{k}" for k in range(count)]
    text: str = getattr(row, form)
    value = text.format(
        *(f"a{k}" for k in range(count)), t=COMPUTE_TYPES[result], s=CUDA_TYPES[result]
    )
    loads = [
        f"    const {COMPUTE_TYPES[w]} a{k} = tf::convert<{COMPUTE_TYPES[w]}>(p{k}[i]);"
        for k, w in enumerate(wanted)
    ]
    parameters = ", ".join([f"{CUDA_TYPES[result]}* y", *pointers, "tf::i64 n"])
    return "\n".join(
        [
            f'extern "C" __global__ void row_{row.name}({parameters}) {{',
            "  for (tf::i64 i = 0; i < n; ++i) {",
            *loads,
            f"    const {COMPUTE_TYPES[result]} value = {value};",
            f"    y[i] = tf::convert<{CUDA_TYPES[result]}>(value);",
            "  }",
            "}",
            "",
        ]
    )


def cast_kernel(source: DataType, target: DataType) -> str:
    """extern "C" void cast_<source>_<target>(y, x, n)."""
    return "\n".join(
        [
            f'extern "C" __global__ void cast_{source}_{target}'
            f"({CUDA_TYPES[target]}* y, const {CUDA_TYPES[source]}* x, tf::i64 n) {{",
            f"  for (tf::i64 i = 0; i < n; ++i) y[i] = tf::convert<{CUDA_TYPES[target]}>(x[i]);",
            "}",
            "",
        ]
    )


def unit(kernels: Sequence[str]) -> str:
    text = "\n".join(kernels)
    return prelude(text) + text


def build(text: str, folder: Path) -> Launch:
    """Compile a unit for the test's device and load it."""
    return _host_unit(text, folder) if here().type == "cpu" else _gpu_unit(text)


def _host_unit(text: str, folder: Path) -> Launch:
    source, library = folder / "unit.cc", folder / "unit.so"
    source.write_text(f'#include "{HOST_HEADER}"\n{text}')
    done = subprocess.run(
        [*COMPILE, str(source), "-o", str(library)], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[:4000]
    functions = ctypes.CDLL(str(library))

    def launch(name: str, tensors: Sequence[Tensor]) -> None:
        pointers = [ctypes.c_void_p(t.data_ptr()) for t in tensors]
        getattr(functions, name)(*pointers, ctypes.c_int64(tensors[0].numel()))

    return launch


def _gpu_unit(text: str) -> Launch:
    target = target_of(torch.device("cuda", 0))
    compiled = nvrtc.compile_cubin(Unit("rows", text), nvrtc.flags(target, Options()), None)
    torch.cuda.init()
    library = _value(driver.cuLibraryLoadData(compiled.payload, [], [], 0, [], [], 0))

    def launch(name: str, tensors: Sequence[Tensor]) -> None:
        kernel = _value(driver.cuLibraryGetKernel(library, name.encode()))
        values = (*(t.data_ptr() for t in tensors), tensors[0].numel())
        types = (*(ctypes.c_void_p for _ in tensors), ctypes.c_int64)
        stream = torch.cuda.current_stream().cuda_stream
        function, one = driver.CUfunction(int(kernel)), (1, 1, 1)
        _value(driver.cuLaunchKernel(function, *one, *one, 0, stream, (values, types), 0))

    return launch


def _value(returned: tuple[Any, ...]) -> Any:
    status, *values = returned
    assert status == driver.CUresult.CUDA_SUCCESS, status
    return values[0] if values else None


def run(launch: Launch, name: str, result: DataType, operands: Sequence[Tensor]) -> Tensor:
    """The result on the CPU."""
    out = torch.empty(operands[0].numel(), dtype=TORCH_DTYPES[result], device=here())
    launch(name, [out, *(x.to(here()) for x in operands)])
    return out.cpu()


def inputs(row: OpDef, dtype: DataType, generator: torch.Generator) -> list[Tensor]:
    """Random values of the row's range, then every combination of special values."""
    count = len(row.operands)
    special = special_values(dtype, count)
    grid = [g.reshape(-1) for g in torch.meshgrid(*[special] * count, indexing="ij")]
    columns = [torch.cat([random_values(row.sample, dtype, generator), g]) for g in grid]
    if row.name in INTEGER_QUOTIENTS and dtype.is_integral:
        # torch raises for a zero divisor and traps on the smallest integer by -1.
        columns[1] = torch.where((columns[1] == 0) | (columns[1] == -1), 3, columns[1])
        columns = [c.to(TORCH_DTYPES[dtype]) for c in columns]
    return [c.contiguous() for c in columns]


def random_values(
    bounds: tuple[float, float], dtype: DataType, generator: torch.Generator, count: int = 389
) -> Tensor:
    low, high = bounds
    values = torch.rand(count, dtype=torch.float64, generator=generator) * (high - low) + low
    if dtype.is_complex:
        other = torch.rand(count, dtype=torch.float64, generator=generator) * 4 - 2
        return torch.complex(values.clamp(-20, 20), other).to(TORCH_DTYPES[dtype])
    if dtype is DataType.Bool:
        return values > (low + high) / 2
    if dtype is DataType.UInt8:
        values = values.abs()
    return values.to(TORCH_DTYPES[dtype])


def bits(x: Tensor) -> Tensor:
    """`x` for `torch.equal`: a float of 8 bits by these, of which even NaN's are torch's."""
    return x.view(torch.uint8) if x.dtype.itemsize == 1 else x


def special_values(dtype: DataType, arity: int) -> Tensor:
    torch_dtype = TORCH_DTYPES[dtype]
    if dtype is DataType.Bool:
        return torch.tensor([False, True])
    if dtype.is_complex:
        return torch.tensor([1 + 0j, 1j, -2.5 + 1e-3j, 0.3 - 7j], dtype=torch_dtype)
    if dtype.is_integral:
        limits = torch.iinfo(torch_dtype)
        few = [limits.min, limits.max, 0, 1, 2, 3, 7]
        signed = [-1, -2, -7] if limits.min < 0 else []
        return torch.tensor([*few, *signed], dtype=torch_dtype)
    limits = torch.finfo(torch_dtype)
    few = [math.nan, math.inf, -math.inf, 0.0, -0.0, 1.0, -2.5, 0.5]
    more = [limits.max, -limits.max, limits.tiny, limits.tiny / 4, -1.0, 1.5, 2.5, -0.5, 3.0]
    return torch.tensor([*few, *(more if arity < 3 else [])], dtype=torch_dtype)
