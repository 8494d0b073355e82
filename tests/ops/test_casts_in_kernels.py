"""Casts from each dtype to every other, through the whole pipeline, are torch's."""

from __future__ import annotations

import warnings

import pytest
import torch

from tests.ops.row_kernels import bits, random_values
from tests.programs import fusion, like, run
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.runtime.dtypes import TORCH_DTYPES


@pytest.mark.sanitizer
@pytest.mark.parametrize("source", DataType, ids=str)
def test_one_kernel_casts_to_every_dtype(source: DataType, device: torch.device) -> None:
    bounds = (0.0, 120.0) if source is DataType.UInt8 else (-120.0, 120.0)
    generator = torch.Generator()
    generator.seed()
    x = random_values(bounds, source, generator, 5 * 37).reshape(5, 37)
    (a,) = like(x)
    targets = [target for target in DataType if target is not source]
    outputs = [call("cast", a, dtype=target) for target in targets]
    found = run(fusion([a], *outputs), x.to(device))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch warns that imaginary parts are dropped
        wanted = [x.to(TORCH_DTYPES[target]) for target in targets]
    pairs = zip(targets, found, wanted, strict=True)
    assert [str(t) for t, f, w in pairs if not torch.equal(bits(f.cpu()), bits(w))] == []
