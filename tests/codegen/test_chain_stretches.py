"""What the text of running sums in stretches says."""

from __future__ import annotations

import pytest
import torch

from tests.programs import cubin_of, cuda_kernels, fusion, like
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call


@pytest.mark.parametrize("reverse", [False, True])
def test_results_take_the_place_of_what_is_read(reverse: bool) -> None:
    x = torch.empty(10_000_001, 3, dtype=torch.bfloat16)
    (a,) = like(x)
    program = fusion([a], call("cumsum", a, dim=0, reverse=reverse))
    _, (kernel,) = cuda_kernels(program, x)
    text = emit(kernel).text
    assert text.count("_stretch = ") == 1
    assert "tf::store<16>(T1 + at, " in text
    assert "threadIdx.x < 3)" in text  # elements behind the last whole vector
    assert cubin_of(kernel).spill_bytes == 0
