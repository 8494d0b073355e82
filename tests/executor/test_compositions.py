"""Norms and the like that are opaque to Thunder are part of their regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check
from thunder_fuser import explain

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}
NORM = torch.linalg.vector_norm
PROGRAMS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "vector norm": lambda x: NORM(x),
    "vector norm along": lambda x: NORM(x, dim=(1, 3), keepdim=True),
    "sum of sizes": lambda x: NORM(x, 1, dim=1),
    "largest": lambda x: NORM(x, inf, dim=-1),
    "smallest": lambda x: NORM(x, -inf, dim=0),
    "norm": lambda x: x.norm(),
    "norm along": lambda x: torch.norm(x, p=2, dim=-1, keepdim=True),
    "norm of order 1": lambda x: x.norm(1, 2),
    "linalg norm": lambda x: torch.linalg.norm(x),
    "linalg norm along": lambda x: torch.linalg.norm(x, 2, 1),
    "cosine": lambda x: F.cosine_similarity(x, x * x + 0.3, dim=-1),
    "normalised": lambda x: F.normalize(x, dim=-1),
    "normalised by the largest": lambda x: F.normalize(x, p=inf),
    "distance": lambda x: F.pairwise_distance(x, x * x),
    "min": lambda x: x.min(),
    "clipped": lambda x: torch.min(x * 0.3, x.clip(-0.2, 0.2) * 0.3),
    "clipped counts": lambda x: x * torch.min((x * 3).long(), (x * 5).long()),
    "diff": lambda x: x.diff(),
    "diff along": lambda x: torch.diff(x, dim=1),
    "nansum": lambda x: torch.nansum(torch.log(x), 1),
}


@pytest.mark.parametrize("program", PROGRAMS)
def test_values_and_gradients_are_torchs(program: str) -> None:
    x = torch.randn(3, 8, 6, 10, requires_grad=True)
    jfn = check(lambda x: PROGRAMS[program](x * 2) * 3, x, **KERNELS)
    assert "no rule for" not in explain(jfn)


def test_numbers_of_what_is_not_zero() -> None:
    x = (torch.randn(5, 33) * 2).round()
    check(lambda x: torch.count_nonzero(x * 2, 1) * 2, x, **KERNELS)
    check(lambda x: torch.count_nonzero(x * 2), x, **KERNELS)


@pytest.mark.parametrize("order", [1, 2, inf])
def test_the_gradient_of_the_norm_of_nothing_but_zeros_is_zero(order: float) -> None:
    x = torch.randn(4, 33)
    x[2] = 0
    jfn = check(lambda x: NORM(x * 2, order, dim=1), x.requires_grad_(), **KERNELS)
    assert "no rule for" not in explain(jfn)
    check(lambda x: F.normalize(x * 2, order, eps=0.1) * 3, x, **KERNELS)


@pytest.mark.parametrize("shapes", [((3, 1), (3, 5)), ((5,), (3, 5)), ((4, 1, 5), (3, 1))], ids=str)
@pytest.mark.parametrize("dim", [1, -1])
def test_what_is_expanded_first_is_similar(dim: int, shapes: tuple[tuple[int, ...], ...]) -> None:
    x, y = (torch.randn(shape, requires_grad=True) for shape in shapes)
    check(lambda x, y: F.cosine_similarity(x, y, dim) * 2, x, y, **KERNELS)
    check(lambda x, y: F.cosine_similarity(y, x, dim) * 2, x, y, **KERNELS)


@pytest.mark.parametrize("dims", [(), [], None], ids=str)
@pytest.mark.parametrize("keepdim", [True, False])
def test_no_dims_are_all(dims: Sequence[int] | None, keepdim: bool) -> None:
    x = torch.randn(3, 5, requires_grad=True)
    for order in (1, 2, inf):
        check(lambda x, order=order: NORM(x * 2, order, dims, keepdim), x)
    check(lambda x: torch.nansum(torch.log(x), dims, keepdim) * 2, x)


def test_rows_without_length_are_similar_to_nothing() -> None:
    x, y = torch.randn(4, 33), torch.randn(4, 33, requires_grad=True)
    x[2] = 0
    check(lambda x, y: F.cosine_similarity(x * 2, y), x.requires_grad_(), y, **KERNELS)


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.linalg.norm(x, 2),
        lambda x: torch.linalg.norm(x, "fro"),
        lambda x: NORM(x, 3),
        lambda x: torch.diff(x, n=2),
        lambda x: F.cosine_similarity(x, x.double()),
    ],
    ids=["spectral", "matrix", "cubic", "second", "two types"],
)
def test_the_rest_is_left_to_torch(program: Callable[[torch.Tensor], torch.Tensor]) -> None:
    jfn = check(lambda x: program(x * 2), torch.randn(5, 33, requires_grad=True))
    assert "no rule for" in explain(jfn)
