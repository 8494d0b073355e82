"""NVIDIA/Fuser#2577: RoPE is one kernel each way, its slices cost nothing, its bits are eager's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.programs import check, cuda_kernels, run
from tests.rope import CASES, Rope
from thunder_fuser.codegen.emit import emit
from thunder_fuser.options import Options

pytestmark = pytest.mark.sanitizer


def widths(text: str) -> list[int]:
    """Bytes of each access of a kernel's text."""
    accesses = r"(?:load(?:_if)?<\S+, \d+, |store(?:_streaming|_hinted)?<)(\d+)>"
    return [int(n) for n in re.findall(accesses, text)]


def eager(case: Rope, x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> list[torch.Tensor]:
    n = case.per_group
    split = x.view(case.batch, case.length, case.groups, n + 2, case.size)
    q, k, v = split.permute(0, 2, 3, 1, 4).split((n, 1, 1), dim=2)
    if case.groups not in (1, case.heads):
        k, v = (t.expand(*q.shape) for t in (k, v))
    q, k, v = (t.reshape(case.batch, -1, case.length, case.size) for t in (q, k, v))

    def turn(t: torch.Tensor) -> torch.Tensor:
        part = t[..., : case.rotated]
        low, high = part.chunk(2, dim=-1)
        turned = part * cos + torch.cat((-high, low), dim=-1) * sin
        return torch.cat((turned, t[..., case.rotated :]), dim=-1)

    return [turn(q), turn(k), v]


@pytest.mark.parametrize("name", CASES)
def test_forward_is_one_kernel_with_the_bits_of_eager(name: str, device: torch.device) -> None:
    case = CASES[name]
    program = case.forward()
    arguments = case.arguments(program)
    plan = check(program, *arguments)
    assert plan.launches == 1
    assert plan.segmented.edge_bytes == 0
    wanted = eager(case, *arguments)
    x, cos, sin = (a.to(device) for a in arguments)
    found = plan.run(x, cos, sin)
    for got, want in zip(found, wanted, strict=True):
        assert torch.equal(got.cpu(), want)
        assert got.stride() == want.stride()
    is_view = case.groups in (1, case.heads)
    assert (found[2].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()) == (is_view), (
        "v is a view of x exactly where eager's is"
    )
    if is_view:
        assert found[2].storage_offset() == wanted[2].storage_offset()


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("name", CASES)
def test_backward_is_one_kernel_with_the_bits_of_the_trace(name: str) -> None:
    case = CASES[name]
    program = case.backward()
    plan = check(program, *case.arguments(program))
    assert plan.launches == 1
    assert plan.segmented.edge_bytes == 0
    assert plan.text.count("= empty") == 1, "nothing is allocated but the gradient"


@pytest.mark.parametrize("name", CASES)
def test_relaxed_kernels_are_nearer_to_fp64_than_eager(name: str, device: torch.device) -> None:
    case = CASES[name]
    program = case.forward()
    arguments = case.arguments(program)
    found = run(program, *(a.to(device) for a in arguments), options=Options())
    exact = eager(case, *(t.double() for t in arguments))
    for got, want, rounded in zip(found, exact, eager(case, *arguments), strict=True):
        ours, theirs = ((t.double() - want).abs().mean().item() for t in (got.cpu(), rounded))
        assert ours <= theirs * 1.01 + 1e-9


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("way", ["forward", "backward"])
def test_structure(name: str, way: str, golden: Callable[[str, str], None]) -> None:
    """The segments and the kernel, for an H200 at sizes that fill it."""
    case = replace(CASES[name], length=4096)
    program = case.forward() if way == "forward" else case.backward()
    segmented, kernels = cuda_kernels(program, *case.arguments(program))
    text = "\n".join([str(segmented), *map(str, kernels), ""])
    golden(f"kernel/rope_{name}_{way}.txt", text)


def test_every_access_of_a_partial_rotation_is_16_bytes() -> None:
    case = Rope(length=1024, heads=16, groups=4)
    program = case.forward()
    _, (kernel,) = cuda_kernels(program, *case.arguments(program))
    assert set(widths(emit(kernel).text)) == {16}
