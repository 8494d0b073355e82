"""Gradients of picks that have an index of each element: torch's values, and one kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.executor.jitted import check, jit, regions
from tests.executor.judging import runs
from thunder_fuser import explain
from thunder_fuser.executor import pick_sums
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.runtime.errors import IndexRangeError
from thunder_fuser.runtime.targets import target_for

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}


def table(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


def picks(*shape: int, of: int) -> torch.Tensor:
    return torch.randint(of, shape)


Program = Callable[..., torch.Tensor]
CASES: dict[str, tuple[Program, Callable[[], tuple[torch.Tensor, ...]]]] = {
    "gather": (
        lambda x, i: torch.gather(x * 2, -1, i) * 3,
        lambda: (table(7, 131), picks(7, 37, of=131)),
    ),
    "take_along_dim": (
        lambda x, i: torch.take_along_dim(x.sin(), i, -1) * 3,
        lambda: (table(3, 5, 24), picks(3, 5, 64, of=24)),
    ),
    "narrow index": (
        lambda x, i: torch.gather(x * 2, 1, i.int().long()) + 1,
        lambda: (table(6, 24), picks(6, 16, of=24)),
    ),
    "scatter_add": (
        lambda x, i, v: torch.scatter_add(x * 2, 1, i, v * 3) + 1,
        lambda: (table(6, 24), picks(6, 16, of=24), table(6, 16)),
    ),
    "more values than places": (
        lambda x, i, v: torch.scatter_add(x * 2, 1, i, v * 3) + 1,
        lambda: (torch.randn(6, 24), picks(6, 16, of=24), torch.randn(7, 19)),
    ),
    "lying apart and expanded": (
        lambda x, i, v: torch.scatter_add(x * 2, 1, i, v.expand(6, 16)) + 1,
        lambda: (table(6, 24), picks(16, 6, of=24).t(), table(6, 1)),
    ),
    "a vector": (
        lambda x, i: torch.gather(x * 2, 0, i) + 1,
        lambda: (table(24), picks(50, of=24)),
    ),
    "dims of one element behind": (
        lambda x, i: torch.gather(x * 2, 1, i) + 1,
        lambda: (table(3, 24, 1), torch.stack([torch.randperm(24)[:9]] * 3)[..., None]),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_eagers(name: str) -> None:
    program, arguments = CASES[name]
    check(program, *arguments(), **KERNELS)


def test_what_comes_before_and_follows_is_of_one_kernel() -> None:
    program, arguments = CASES["gather"]
    jfn = check(program, *arguments(), **KERNELS)
    (backward,) = regions(jfn).backward
    assert "scatter_add" in backward
    assert "torch adds them" not in explain(jfn)
    (plan,) = regions_of(jfn)[-1].plans()
    assert plan.count("(kernel; ") == 1


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_error_is_like_eagers(dtype: torch.dtype, device: torch.device) -> None:
    """Also where many elements go to one column."""
    x, source = torch.randn(5, 9).to(dtype), torch.randn(5, 400).to(dtype)
    index, cotangent = picks(5, 400, of=9), torch.randn(5, 9, dtype=dtype)
    index[2] = 4

    def program(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return torch.scatter_add(x, -1, index.to(x.device), source * 0.7)

    ours = runs(jit(program, **KERNELS), [x, source], cotangent, device)
    eager = runs(program, [x, source], cotangent)
    exact = runs(program, [x.double(), source.double()], cotangent)
    for value, found, theirs in zip(exact, ours, eager, strict=True):
        rounding = torch.finfo(dtype).eps * value.abs().max()
        assert (found - value).abs().max() <= 2 * (theirs - value).abs().max() + 2 * rounding


@pytest.mark.parametrize("bad", [-1, 24])
def test_a_place_out_of_range_is_an_error(bad: int) -> None:
    if torch.cuda.is_available():
        pytest.skip("a failed assertion ends the process's use of the GPU")
    index = picks(6, 16, of=24)
    index[3, 15] = bad
    program, _ = CASES["scatter_add"]
    with pytest.raises(IndexRangeError, match=f"index {bad} is out of range .* extent 24"):
        jit(program, **KERNELS)(torch.randn(6, 24), index, torch.randn(6, 16))


@pytest.mark.parametrize(
    ("shapes", "dim", "dtype", "reason"),
    [
        (((24, 6), (9, 6)), 0, torch.float32, "an index along dim 0 of 2, not along the last one"),
        (((6, 24), (5, 9)), 1, torch.float32, "it writes a part of the rows only"),
        (((6, 24), (6, 9)), 1, torch.float64, "which are not exact in 64 bits"),
    ],
)
def test_what_is_left_to_torch_has_a_reason(
    shapes: tuple[tuple[int, ...], ...], dim: int, dtype: torch.dtype, reason: str
) -> None:
    x, values = (torch.randn(shape, dtype=dtype) for shape in shapes)
    index = picks(*shapes[1], of=shapes[0][dim])
    jfn = check(lambda x, i, v: torch.scatter_add(x * 2, dim, i, v) + 1, x, index, values)
    assert f"{reason}: torch adds them, on CUDA in no fixed order" in explain(jfn)


def test_as_many_columns_are_claimed_as_a_block_of_the_device_counts(
    monkeypatch: pytest.MonkeyPatch, device: torch.device
) -> None:
    small = replace(target_for(device), shared_bytes=99 * 1024)
    monkeypatch.setattr(pick_sums, "target_for", lambda device: small)
    given = torch.randn(2, 30000), picks(2, 9, of=30000), torch.randn(2, 9)
    jfn = check(lambda x, i, v: torch.scatter_add(x * 2, 1, i, v) + 1, *given)
    assert "9 elements with an index each and 30000 columns, more than a block has" in explain(jfn)


@pytest.mark.parametrize(("rows", "is_ours"), [(1200, True), (1000, False)])
def test_one_alone_is_torchs_where_it_is_small(rows: int, is_ours: bool) -> None:
    """Of 4 MB on torch adds more slowly than a second call takes."""

    def program(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return torch.scatter_add(x, 1, i, v)

    jfn = check(program, torch.randn(rows, 32), picks(rows, 300, of=32), torch.randn(rows, 300))
    assert bool(regions(jfn).forward) == is_ours
