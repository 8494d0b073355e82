"""The combine steps and identities of reduction rows against torch."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from tests.ops.row_kernels import build, random_values, run, special_values, unit
from thunder_fuser.codegen.types import COMPUTE_TYPES, CUDA_TYPES
from thunder_fuser.dtypes import DataType
from thunder_fuser.ops import OPS, Family, OpDef
from thunder_fuser.ops.definition import Operand
from thunder_fuser.ops.dtype_sets import ALL
from thunder_fuser.runtime.dtypes import TORCH_DTYPES
from thunder_fuser.runtime.evaluate import row_function

ROWS = [row for row in OPS.values() if row.family is Family.REDUCTION and row.combine]
LENGTH = 3  # of a reduced row; element 0 is combined with the identity first


def reduction_kernel(row: OpDef, dtype: DataType) -> str:
    result = row.dtype([Operand(dtype, False)])
    kind = COMPUTE_TYPES[result]
    combined = row.combine.format("total", "term", t=kind)
    return (
        f'extern "C" __global__ void row_{row.name}({CUDA_TYPES[result]}* y, '
        f"const {CUDA_TYPES[dtype]}* x, tf::i64 n) {{\n"
        f"  for (tf::i64 i = 0; i < n / {LENGTH}; ++i) {{\n"
        f"    {kind} total = {row.identity.format(t=kind)};\n"
        f"    for (int k = 0; k < {LENGTH}; ++k) {{\n"
        f"      const {kind} term = tf::convert<{kind}>(x[i * {LENGTH} + k]);\n"
        f"      total = {combined};\n"
        "    }\n"
        f"    y[i] = tf::convert<{CUDA_TYPES[result]}>(total);\n"
        "  }\n}\n"
    )


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("dtype", sorted(ALL, key=str), ids=str)
def test_combining_from_the_identity_is_torchs_reduction(dtype: DataType, tmp_path: Path) -> None:
    rows = [row for row in ROWS if dtype in row.dtypes]
    launch = build(unit([reduction_kernel(row, dtype) for row in rows]), tmp_path)
    special = special_values(dtype, 3)
    grid = torch.cartesian_prod(special, special, special)
    x = torch.cat([random_values((-4.0, 4.0), dtype, torch.Generator(), 99).reshape(-1, 3), grid])
    for row in rows:
        result = row.dtype([Operand(dtype, False)])
        found = run(launch, f"row_{row.name}", result, [x.reshape(-1)])[: len(x)]
        (wanted_type,) = row.operand_dtypes([Operand(dtype, False)])
        wanted = row_function(row)(x.to(TORCH_DTYPES[wanted_type]), dims=[1])
        assert found.dtype == wanted.dtype
        tolerance = {"sum": 1e-5, "prod": 1e-5}.get(row.name, 0.0)
        if dtype.is_reduced_precision:
            tolerance = 2e-2 if tolerance else 0.0
        torch.testing.assert_close(
            found, wanted, rtol=tolerance, atol=tolerance, equal_nan=True, msg=row.name
        )
