"""Embeddings and indexing through Thunder: values, gradients, what is left to torch and why."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, region
from thunder_fuser import explain, fuser
from thunder_fuser.runtime.errors import IndexRangeError

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}


def table(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


def scaled_embedding(index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.embedding(index, weight) * weight.shape[1] ** 0.5


def padded_embedding(index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.embedding(index, weight, padding_idx=3) * 2.0


def normed_embedding(index: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    return F.rms_norm(F.embedding(index, weight) * 3.0, (weight.shape[1],))


CASES: dict[str, tuple[Callable[..., torch.Tensor], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "embedding": (scaled_embedding, lambda: (torch.randint(50, (3, 7)), table(50, 24))),
    "embedding of one": (scaled_embedding, lambda: (torch.tensor(7), table(50, 24))),
    "embedding of none": (scaled_embedding, lambda: (torch.empty(0, 3).long(), table(50, 24))),
    "embedding with padding": (padded_embedding, lambda: (torch.randint(50, (9,)), table(50, 24))),
    "embedding and norm": (normed_embedding, lambda: (torch.randint(50, (9,)), table(50, 131))),
    "rows": (lambda x, i: x[i] * 2, lambda: (table(50, 24), torch.randint(-50, 50, (5,)))),
    "columns": (lambda x, i: x[:, i] * 2, lambda: (table(5, 24), torch.randint(-24, 24, (7, 2)))),
    "pairs": (
        lambda x, i, j: x[i, j] * 2,
        lambda: (table(5, 24), torch.randint(-5, 5, (7,)), torch.randint(-24, 24, (7,))),
    ),
    "gather": (
        lambda x, i: torch.gather(x * 2, 1, i) + 1,
        lambda: (table(5, 24), torch.randint(24, (3, 50))),
    ),
    "take_along_dim": (
        lambda x, i: torch.take_along_dim(x * 2, i, 1) + 1,
        lambda: (table(5, 24), torch.randint(24, (5, 50))),
    ),
    "index_select": (
        lambda x, i: torch.index_select(x * 2, 1, i) + 1,
        lambda: (table(5, 24), torch.randint(24, (50,), dtype=torch.int32)),
    ),
    "negative log likelihood": (
        lambda x, t: F.nll_loss(torch.log_softmax(x, 1), t, ignore_index=-100),
        lambda: (table(50, 37), torch.randint(37, (50,))),
    ),
    "cross entropy with weights": (
        lambda x, t, w: F.cross_entropy(x, t, weight=w, ignore_index=3),
        lambda: (table(50, 37), torch.randint(37, (50,)), torch.rand(37)),
    ),
    # Thunder's own gradient of it fails on the types that it makes.
    "cross entropy of images": (
        lambda x, t: F.cross_entropy(x, t, ignore_index=-100, reduction="sum"),
        lambda: (torch.randn(5, 7, 9), torch.randint(7, (5, 9))),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_eagers(name: str) -> None:
    program, arguments = CASES[name]
    check(program, *arguments(), **KERNELS)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_rows_of_any_float_are_copied_exactly(dtype: torch.dtype) -> None:
    weight, index = torch.randn(50, 33).to(dtype), torch.randint(50, (4, 9))
    check(lambda i, w: (F.embedding(i, w) * 2, F.embedding(i, w)), index, weight, **KERNELS)


def test_an_embedding_its_scale_and_its_norm_are_one_kernel() -> None:
    jfn = check(normed_embedding, torch.randint(50, (9,)), torch.randn(50, 131), **KERNELS)
    (plan,) = region(jfn).plans()
    assert plan.count("(kernel; ") == 1


def test_negative_indices_count_from_the_end_where_torch_says_so() -> None:
    x, index = torch.randn(5, 24), torch.randint(-24, 24, (5, 50))
    check(lambda x, i: torch.take_along_dim(x * 2, i, 1) + 1, x, index, **KERNELS)
    jfn = thunder.jit(lambda x, i: torch.gather(x * 2, 1, i) + 1, executors=[fuser])
    if not torch.cuda.is_available():
        with pytest.raises(IndexRangeError, match="index -3 is out of range"):
            jfn(x, torch.full((5, 2), -3))


def test_an_index_out_of_range_names_the_users_line() -> None:
    if torch.cuda.is_available():
        pytest.skip("a failed assertion ends the process's use of the GPU")
    jfn = thunder.jit(scaled_embedding, executors=[fuser])
    with pytest.raises(IndexError, match="region TF0, segment 0 of 1: index 50 is out of range"):
        jfn(torch.tensor([0, 50]), torch.randn(50, 24))


def test_the_largest_are_left_to_torch_with_the_reason() -> None:
    jfn = check(lambda x: torch.topk(x * 2, 3)[0] + 1, torch.randn(5, 24))
    assert "it orders the elements of a row" in explain(jfn)


@pytest.mark.parametrize(
    "program",
    [
        lambda x, i: torch.gather(x * 3, 0, i) * 2,
        lambda x, i: torch.scatter_add(x * 3, -1, i, x) * 2,
        lambda x, i: torch.scatter(x * 3, 0, i, x) * 2,
    ],
    ids=["gather", "scatter_add", "scatter"],
)
def test_indices_into_a_tensor_of_rank_0_are_torchs(
    program: Callable[..., torch.Tensor],
) -> None:
    jfn = check(program, torch.randn(()), torch.tensor(0), fuser_single_op=True)
    assert "a tensor without dims" in explain(jfn)
