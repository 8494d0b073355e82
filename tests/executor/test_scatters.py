"""Scatters of few places: torch's values, the same in every run, and reasons for the others."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, jit, region, regions
from tests.executor.judging import runs
from thunder_fuser import explain, fuser
from thunder_fuser.executor.scatters import MAX_PLACES
from thunder_fuser.runtime.errors import IndexRangeError

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}
Program = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


def table(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


CASES: dict[str, tuple[Program, Callable[[], tuple[torch.Tensor, ...]]]] = {
    "one element of a row": (
        lambda x, i: torch.gather(x * 2, 1, i) + 1,
        lambda: (table(7, 131), torch.randint(131, (7, 1))),
    ),
    "some elements of a row, some twice": (
        lambda x, i: torch.gather(x * 2, 1, i) + 1,
        lambda: (table(7, 4), torch.randint(4, (7, MAX_PLACES))),
    ),
    "a middle axis": (
        lambda x, i: torch.gather(x * 2, 1, i) + 1,
        lambda: (table(3, 9, 5), torch.randint(9, (3, 2, 5))),
    ),
    "rows": (lambda x, i: x[i] * 2, lambda: (table(6, 24), torch.randint(-6, 6, (4,)))),
    "one column": (lambda x, i: x[:, i] * 2, lambda: (table(6, 24), torch.tensor(3))),
    "a vector": (lambda x, i: x[i] * 2, lambda: (table(24), torch.randint(24, (5,)))),
    "scatter_add": (
        lambda x, i, v: torch.scatter_add(x * 2, 1, i, v * 3) + 1,
        lambda: (table(6, 24), torch.randint(24, (6, 3)), table(6, 3)),
    ),
    "index_add": (
        lambda x, i, v: torch.index_add(x * 2, 0, i, v * 3) + 1,
        lambda: (torch.randn(6, 24), torch.randint(6, (3,)), torch.randn(3, 24)),
    ),
    "scatter": (
        lambda x, i, v: torch.scatter(x * 2, 1, i, v * 3) + 1,
        lambda: (torch.randn(6, 24), torch.randint(24, (6, 1)), torch.randn(6, 1)),
    ),
    "scatter of a number": (
        lambda x, i: torch.scatter(x * 2, 0, i, value=7.5) + 1,
        lambda: (torch.randn(24, 6), torch.randint(24, (3, 6))),
    ),
    "scatter of a number into integers": (
        lambda x, i: torch.scatter(x * 2, 0, i, value=7) + 1,
        lambda: (torch.randint(9, (24, 6)), torch.randint(24, (3, 6))),
    ),
    "scatter of a bool": (
        lambda x, i: (~(x > 0).scatter(1, i, True), (x > 0).scatter(1, i, False) & (x < 1)),
        lambda: (torch.randn(6, 24), torch.randint(24, (6, 3))),
    ),
    "one_hot": (lambda i: F.one_hot(i, 11) * 2, lambda: (torch.randint(11, (4, 5)),)),
    "negative log likelihood by hand": (
        lambda x, t: -torch.log_softmax(x, 1).gather(1, t).mean(),
        lambda: (table(50, 37), torch.randint(37, (50, 1))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_eagers(name: str) -> None:
    program, arguments = CASES[name]
    check(program, *arguments(), **KERNELS)


NO_PLACES: dict[str, Callable[..., torch.Tensor]] = {
    "index_add": lambda x, i, v: x.index_add(0, i[0], v),
    "scatter_add": lambda x, i, v: x.scatter_add(1, i, v.t()),
    "scatter": lambda x, i, v: x.scatter(1, i, 7.0),
}


@pytest.mark.parametrize("evaluator", [True, False])
@pytest.mark.parametrize("name", NO_PLACES)
def test_a_scatter_to_no_place_is_a_copy(name: str, evaluator: bool, device: torch.device) -> None:
    x, index, value = torch.randn(3, 3), torch.zeros(3, 0, dtype=torch.int64), torch.zeros(0, 3)
    given = [t.to(device, copy=True) for t in (x, index, value)]
    jfn = jit(lambda *args: (NO_PLACES[name](*args), args[0] * 2), fuser_evaluator=evaluator)
    found, _ = jfn(*given)
    torch.testing.assert_close(found.cpu(), x)
    found.zero_()
    torch.testing.assert_close(given[0].cpu(), x)


def test_the_gradient_of_a_gather_is_in_the_region_of_what_follows() -> None:
    program, arguments = CASES["negative log likelihood by hand"]
    jfn = check(program, *arguments(), **KERNELS)
    (backward,) = regions(jfn).backward
    assert "scatter_add" in backward


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_the_error_of_one_alone_is_like_eagers(dtype: torch.dtype, device: torch.device) -> None:
    """What Thunder makes of one of bf16 for torch is not complete once regions are formed."""
    x, source = (table(13, 3).detach().to(dtype) for _ in range(2))
    index = torch.randint(3, (13, 3))
    cotangent = torch.randn(13, 3, dtype=dtype)

    def program(x: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
        return torch.scatter_add(x, -1, index.to(x.device), source)

    ours = runs(jit(program, **KERNELS), [x, source], cotangent, device)
    eager = runs(program, [x, source], cotangent)
    exact = runs(program, [x.double(), source.double()], cotangent)
    for value, found, theirs in zip(exact, ours, eager, strict=True):
        rounding = torch.finfo(dtype).eps * value.abs().max()
        assert (found - value).abs().max() <= 2 * (theirs - value).abs().max() + 2 * rounding


def test_equal_places_are_added_in_their_order(device: torch.device) -> None:
    """In f32 the order of these shows."""
    values = torch.tensor([[1e8, 1.0, -1e8, 1.0, 3e-9, 7.0, -7.0, 1.0]])
    index = torch.full((1, 8), 2)
    jfn = thunder.jit(lambda x, i, v: torch.scatter_add(x, 1, i, v) * 1.0, executors=[fuser])
    found = jfn(*(t.to(device) for t in (torch.zeros(1, 5), index, values))).cpu()
    assert torch.equal(found, torch.zeros(1, 5).scatter_add(1, index, values))


@pytest.mark.parametrize("bad", [-1, 24])
def test_a_place_out_of_range_is_an_error(bad: int) -> None:
    if torch.cuda.is_available():
        pytest.skip("a failed assertion ends the process's use of the GPU")
    jfn = thunder.jit(lambda x, i: torch.scatter(x * 2, 1, i, value=1.0), executors=[fuser])
    with pytest.raises(IndexRangeError, match=f"index {bad} is out of range .* extent 24"):
        jfn(torch.randn(6, 24), torch.full((6, 1), bad))


@pytest.mark.parametrize(
    ("program", "shapes", "reason"),
    [
        (
            lambda x, i, v: torch.scatter(x * 2, 1, i, 7.0) + v.sum(),
            ((6, 24), (6, 9), (6, 9)),
            "it has 9 places along its axis, at most 8: torch writes them",
        ),
        (
            lambda x, i, v: torch.scatter(x * 2, 1, i, v) + 1,
            ((6, 24), (6, 2), (6, 2)),
            "which of several values for one place counts is not defined",
        ),
        (
            lambda x, i, v: torch.scatter_add(x * 2, 1, i, v) + 1,
            ((6, 24), (5, 2), (5, 2)),
            "it writes a part of the rows only",
        ),
        (
            lambda x, i, v: torch.scatter_add(x * 2, 1, i, v) + 1,
            ((6, 24), (6, 2), (6, 3)),
            "it has more values than places",
        ),
        (
            lambda x, i, v: torch.index_put(x * 2, (i,), v) + 1,
            ((6, 24), (2,), (2, 24)),
            "it writes where indices say",
        ),
    ],
)
def test_what_is_left_to_torch_has_a_reason(
    program: Callable[..., torch.Tensor], shapes: tuple[tuple[int, ...], ...], reason: str
) -> None:
    x, values = torch.randn(shapes[0]), torch.randn(shapes[2])
    index = torch.arange(prod(shapes[1])).reshape(shapes[1]) % 6
    assert reason in explain(check(program, x, index, values))


def test_a_scatter_is_one_kernel() -> None:
    program, arguments = CASES["scatter"]
    (plan,) = region(check(program, *arguments(), **KERNELS)).plans()
    assert plan.count("(kernel; ") == 1
