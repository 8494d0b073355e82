"""A thread's vectors in two forms, as text; what NVRTC makes of them, and how exact one is."""

from __future__ import annotations

import re

import pytest
import torch

from tests.codegen.test_tail_text import kernel_of, text_of
from tests.devices import ORDERS
from tests.programs import chain, cubin_of, fusion, like, run, total
from tests.schedule.segments import floats
from thunder_fuser.codegen.prelude import prelude
from thunder_fuser.options import Options


def test_vectors_are_walked_in_the_short_form_where_all_lie_near() -> None:
    x = floats(1000, 400)
    lines = [
        line.strip() for line in text_of(kernel_of(x, total(chain(x, "tanh"), 1))).splitlines()
    ]
    places = [
        lines.index(line)
        for line in (
            "farthest = tf::maximum(farthest, size);",
            "if (farthest < 0.6f) {",
            "const float T1_0 = tf::near_tanh(T0_0);",
            "} else {",
            "const float T1_0 = tf::tanh(T0_0);",
        )
    ]
    assert places == sorted(places)
    assert cubin_of(kernel_of(x, total(chain(x, "tanh"), 1))).spill_bytes == 0


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("columns", [9, 34, 257, 577, 4096, 20011])
def test_threads_near_zero_and_others_are_as_exact(columns: int, order: str) -> None:
    """Beside eager's own error, of rows near zero, rows that are not, and rows with both."""
    x = torch.randn(37, columns, generator=torch.Generator().manual_seed(0)) / 8
    x[9:20] *= 40
    x[20:, ::97] = 5.0
    x[36, 3] = torch.nan
    (a,) = like(x)
    (found,) = run(fusion([a], total(chain(a, "tanh"), 1)), x, options=Options(thread_order=order))
    exact, eager = torch.tanh(x.double()).sum(1), torch.tanh(x).sum(1)
    assert torch.isnan(found[36])
    wrong = (found.cpu().double() - exact)[:36].abs().max()
    assert wrong <= 2 * (eager.double() - exact)[:36].abs().max() + 1e-6


def test_the_short_form_is_as_exact_as_the_long_one() -> None:
    """Within 1.81 units of the last place, as CUDA's; f64 stands in for the FMA of f32."""
    text = prelude("tf::near_tanh(x)")
    c3, c2, c1, c0 = (float.fromhex(c) for c in re.findall(r"-?0x1\.\w+p-\d+", text))
    bits = torch.arange(0x3586_37BD, 0x3F19_999A, 4099, dtype=torch.int32)  # from 1e-6 to 0.6
    x = bits.view(torch.float32)

    def fma(a: torch.Tensor, b: torch.Tensor, c: float | torch.Tensor) -> torch.Tensor:
        return (a.double() * b.double() + c).float()

    square = x * x
    slope = fma(fma(fma(torch.full_like(x, c3), square, c2), square, c1), square, c0)
    found, exact = fma(x, fma(slope, square, 0.0), x.double()), torch.tanh(x.double())
    unit = torch.nextafter(exact.float(), torch.ones(())).double() - exact.float().double()
    assert ((found.double() - exact).abs() / unit).max() < 1.81
