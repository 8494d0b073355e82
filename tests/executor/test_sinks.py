"""A softmax of rows to which an element was joined, and dropped behind it, is one kernel."""

from __future__ import annotations

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.executor.judging import Program, judged
from thunder_fuser import fuser

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def wide(x: torch.Tensor) -> torch.Tensor:
    return x.float() if x.dtype == torch.bfloat16 else x


def joined(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    sink = wide(k)[:, None, None].expand(*x.shape[:-1], 1)
    return torch.cat((wide(x), sink), -1)


def sinks(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.softmax(joined(x, k), -1)[..., :-1].to(x.dtype)


def logarithms(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.log_softmax(joined(x, k), -1)[..., :-1].to(x.dtype)


def first(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    sink = joined(x, k)[..., -1:]
    return torch.softmax(torch.cat((sink, wide(x)), -1), -1)[..., 1:].to(x.dtype)


def kept(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return torch.softmax(joined(x, k), -1).to(x.dtype)


def classes(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    background = k[None, :1, None].expand(x.shape[0], 1, x.shape[2])
    planes = x.reshape(x.shape[0], -1, x.shape[2])[..., : x.shape[2]]
    return torch.softmax(torch.cat((planes, background), 1), 1)[:, :-1]


def padded(x: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    return wide(F.pad(x, (2, 1), value=1.5)).square().mean(-1) * k[:, None]


CASES: dict[str, tuple[Program, int, int | None]] = {
    "of whole vectors": (sinks, 72, 1),
    "of an odd number": (sinks, 75, 1),
    "long": (sinks, 1030, 1),
    "logarithms": (logarithms, 72, 1),
    "in front": (first, 72, 1),
    "short": (sinks, 17, 1),
    "kept": (kept, 72, None),
    "of classes": (classes, 12, None),
    "padded": (padded, 72, 1),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_errors_are_like_those_of_eager(
    name: str, dtype: torch.dtype, device: torch.device
) -> None:
    program, columns, wanted = CASES[name]
    x, k = torch.randn(2, 3, 12, columns, dtype=dtype), torch.randn(3, dtype=dtype) * 3
    cotangent = torch.rand_like(program(x, k))  # of one sign: no sum of it is near zero
    jfn = judged(program, [x * 4, k], cotangent, device)
    assert wanted is None or fuser.facts(jfn).forward.kernels == wanted


@pytest.mark.parametrize("sink", [-float("inf"), 200.0, float("nan")])
def test_what_a_sink_outweighs_is_eagers(sink: float, device: torch.device) -> None:
    x, k = torch.randn(2, 1, 3, 72), torch.full((1,), sink)
    found = thunder.jit(sinks, executors=[fuser])(x.to(device), k.to(device)).cpu()
    torch.testing.assert_close(found, sinks(x, k), rtol=1e-5, atol=1e-30, equal_nan=True)
