"""Gradients of embeddings and of indexing through Thunder: eager's values, every index checked."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, regions
from thunder_fuser import explain, fuser
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.runtime.errors import IndexRangeError
from thunder_fuser.schedule import ordering

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}


def table(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


def places(limit: int, *shape: int, dtype: torch.dtype = torch.int64) -> torch.Tensor:
    return torch.randint(limit, shape, dtype=dtype)


CASES: dict[str, tuple[Callable[..., torch.Tensor], Callable[[], tuple[torch.Tensor, ...]]]] = {
    "an embedding": (
        lambda i, w: F.embedding(i, w) * 2,
        lambda: (places(50, 3, 13), table(50, 24)),
    ),
    "of odd rows": (
        lambda i, w: F.embedding(i, w) * 2,
        lambda: (places(50, 39), table(50, 77)),
    ),
    "of one index": (
        lambda i, w: F.embedding(i, w) * 2,
        lambda: (torch.tensor(7), table(50, 24)),
    ),
    "of no index": (
        lambda i, w: F.embedding(i, w) * 2,
        lambda: (places(50, 0), table(50, 24)),
    ),
    "of int32": (
        lambda i, w: F.embedding(i, w) * 2,
        lambda: (places(50, 39, dtype=torch.int32), table(50, 24)),
    ),
    "of one often": (
        lambda i, w: F.embedding(i, w) * 2,
        lambda: (torch.where(torch.rand(60) < 0.5, 3, places(50, 60)), table(50, 24)),
    ),
    "with padding": (
        lambda i, w: F.embedding(i, w, padding_idx=3) * 2,
        lambda: (torch.where(torch.rand(60) < 0.5, 3, places(50, 60)), table(50, 24)),
    ),
    "with padding from the end": (
        lambda i, w: F.embedding(i, w, padding_idx=-47) * 2,
        lambda: (torch.where(torch.rand(60) < 0.5, 3, places(50, 60)), table(50, 24)),
    ),
    "tied weights": (
        lambda i, w: F.linear(F.embedding(i, w) * 2, w),
        lambda: (places(50, 3, 13), table(50, 24)),
    ),
    "rows": (lambda x, i: (x * 2)[i] * 3, lambda: (table(6, 24), torch.randint(-6, 6, (40,)))),
    "columns": (lambda x, i: (x * 2)[:, i] * 3, lambda: (table(6, 24), places(24, 40))),
    "rows and columns": (
        lambda x, i, j: (x * 2)[i, j] * 3,
        lambda: (table(6, 24), places(6, 40), places(24, 40)),
    ),
    "a middle axis": (
        lambda x, i: torch.index_select(x * 2, 1, i) * 3,
        lambda: (table(3, 9, 5), places(9, 20)),
    ),
    "index_add": (
        lambda x, i, v: torch.index_add(x * 2, 0, i, v * 3) + 1,
        lambda: (torch.randn(6, 24), places(6, 40), torch.randn(40, 24)),
    ),
    "index_add in place": (
        lambda x, i, v: x.index_add_(0, i, v * 3) * 2,
        lambda: (torch.randn(6, 24), places(6, 40), torch.randn(40, 24)),
    ),
    "index_add of integers": (
        lambda x, i, v: torch.index_add(x * 2, 1, i, v * 3) + 1,
        lambda: (places(9, 6, 24), places(24, 40), places(9, 6, 40)),
    ),
    "index_put": (
        lambda x, i, v: torch.index_put(x * 2, (i,), v * 3, accumulate=True) + 1,
        lambda: (table(6, 24), torch.randint(-6, 6, (4, 10)), torch.randn(4, 10, 24)),
    ),
    "index_put at pairs": (
        lambda x, i, j, v: torch.index_put(x * 2, (i, j), v * 3, accumulate=True) + 1,
        lambda: (
            table(6, 24, 5),
            places(6, 40),
            torch.randint(-24, 24, (40,)),
            torch.randn(40, 5),
        ),
    ),
    "index_put of one value": (
        lambda x, i, v: torch.index_put(x * 2, (i,), v, accumulate=True) + 1,
        lambda: (table(6, 24), places(6, 40), torch.randn(1)),
    ),
}  # Thunder gives the values of an index_put no gradient.


@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_eagers(name: str) -> None:
    program, arguments = CASES[name]
    jfn = check(program, *arguments(), **KERNELS)
    assert "no template holds" not in explain(jfn)


@pytest.mark.parametrize("name", ["an embedding", "rows", "columns"])
def test_errors_are_like_those_of_eager(name: str, device: torch.device) -> None:
    program, arguments = CASES[name]
    given = [
        t.detach().to(torch.bfloat16).requires_grad_() if t.is_floating_point() else t
        for t in arguments()
    ]

    def gradients(fn: Callable[..., torch.Tensor], *, on: torch.device, wide: bool) -> torch.Tensor:
        own = [t.detach().to(on).requires_grad_(t.requires_grad) for t in given]
        own = [t.detach().double().requires_grad_() if wide and t.requires_grad else t for t in own]
        wanted = [t for t in own if t.requires_grad]
        out = fn(*own)
        torch.manual_seed(7)
        cotangent = torch.randn(out.shape).to(out.dtype).to(on)
        found = torch.autograd.grad(out, wanted, cotangent)
        return torch.cat([t.cpu().double().flatten() for t in found])

    cpu = torch.device("cpu")
    jfn = thunder.jit(program, executors=[fuser], **KERNELS)
    ours = gradients(jfn, on=device, wide=False)
    exact = gradients(program, on=cpu, wide=True)
    eager = gradients(program, on=cpu, wide=False)
    assert (ours - exact).abs().max() <= 2 * (eager - exact).abs().max() + 1e-2


def test_a_gradient_that_meets_another_is_added_by_the_kernel_that_makes_it() -> None:
    program, arguments = CASES["tied weights"]
    jfn = check(program, *arguments(), **KERNELS)
    assert any(set(names) >= {"embedding_backward", "add"} for names in regions(jfn).backward)


def test_two_tables_that_one_index_reads_are_one_kernel_behind_one_order() -> None:
    jfn = check(
        lambda i, w, v: F.embedding(i, w) * F.embedding(i, v),
        *(places(50, 39), table(50, 24), table(50, 24)),
        **KERNELS,
    )
    text = explain(jfn)
    assert text.count("(kernel;") == 1 + 3  # the backward: an order, products, and their sums
    assert text.count("reads an index in order") == 1


def test_the_backward_says_what_torch_does_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "MAX_READS", 0)
    jfn = check(lambda i, w: F.embedding(i, w) * 2, places(50, 80), table(50, 4), **KERNELS)
    for name in ("group_order", "group_keys", "group_ends"):
        assert f"torch; {name} is done by torch" in explain(jfn)


@pytest.mark.parametrize(
    ("rows", "terms", "is_fused"), [(4096, 5, True), (4000, 5, False), (9, 4097, True)]
)
def test_alone_it_is_fused_for_a_large_table_or_many_rows(
    rows: int, terms: int, is_fused: bool
) -> None:
    """Of 32 MiB: 4096 rows of 2048 values in f32."""
    jfn = check(F.embedding, places(rows, terms), table(rows, 2048), **KERNELS)
    assert (regions(jfn).backward == (("embedding_backward",),)) is is_fused


def test_two_runs_are_equal_bit_for_bit(device: torch.device) -> None:
    index, weight, cotangent = places(5, 3000), torch.randn(5, 40), torch.randn(3000, 40)
    jfn = thunder.jit(lambda i, w: F.embedding(i, w) * 2, executors=[fuser])
    index, cotangent = index.to(device), cotangent.to(device)
    found = []
    torch.use_deterministic_algorithms(True)
    try:
        for _ in range(3):
            w = weight.to(device).requires_grad_()
            jfn(index, w).backward(cotangent)
            assert w.grad is not None
            found.append(w.grad)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(torch.equal(found[0], other) for other in found)


@pytest.mark.parametrize("rows", [1, 2**15, 2**15 + 1, 2**16 + 9])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
def test_a_table_of_any_size_gets_its_gradient(
    rows: int, dtype: torch.dtype, device: torch.device
) -> None:
    index = places(rows, 500, dtype=dtype)
    index[:4] = torch.tensor([0, rows - 1, 0, rows - 1])
    weight, cotangent = torch.randn(rows, 3), torch.randint(-9, 9, (500, 3)).float()
    exact = torch.zeros(rows, 3).index_add(0, index, cotangent * 2)
    jfn = thunder.jit(lambda i, w: F.embedding(i, w) * 2, executors=[fuser], **KERNELS)
    own = weight.to(device).requires_grad_()
    jfn(index.to(device), own).backward(cotangent.to(device))
    assert own.grad is not None
    assert torch.equal(own.grad.cpu(), exact)


# The last two are 3 where only their low 16 or 32 bits count.
@pytest.mark.parametrize("bad", [-7, 6, 2**16 + 3, 2**32 + 3])
@pytest.mark.parametrize("name", ["index_add", "index_put"])
def test_a_place_out_of_range_is_an_error(name: str, bad: int) -> None:
    if torch.cuda.is_available():
        pytest.skip("a failed assertion ends the process's use of the GPU")
    program, arguments = CASES[name]
    x, index, values = (t.detach() for t in arguments())
    index.view(-1)[3] = bad
    jfn = thunder.jit(program, executors=[fuser])
    shown = bad + 6 if name == "index_put" and bad < 0 else bad
    with pytest.raises(IndexRangeError, match=f"index {shown} is out of range .* extent 6"):
        jfn(x, index, values)


@pytest.mark.parametrize(
    ("program", "reason"),
    [
        (
            lambda i, w: F.embedding(i, w, scale_grad_by_freq=True) * 2,
            "rows that are scaled by how often an index names them",
        ),
        (
            lambda i, w: torch.index_put(w * 2, (i,), torch.ones_like(w[:1])) + 1,
            "it writes where indices say, in no defined order where they say so twice",
        ),
        (
            lambda i, w: torch.complex(w, w)[i] * 2,
            "sums of dtype",
        ),
    ],
)
def test_what_is_left_to_torch_has_a_reason(
    program: Callable[..., torch.Tensor], reason: str
) -> None:
    jfn = check(program, places(50, 39), table(50, 24))
    assert reason in explain(jfn)


def test_a_model_with_an_embedding_learns_as_eager_does(device: torch.device) -> None:
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Embedding(40, 16, padding_idx=0), torch.nn.LayerNorm(16), torch.nn.Linear(16, 40)
    ).to(device)
    index = places(40, 4, 25).to(device)
    jitted = thunder.jit(model, executors=[fuser], **KERNELS)
    for run in (jitted, model):
        model.zero_grad()
        F.cross_entropy(run(index).flatten(0, 1), index.flatten()).backward()
        grad = model[0].weight.grad
        assert grad is not None
        if run is jitted:
            ours = grad.clone()
    torch.testing.assert_close(ours, grad)
    assert not ours[0].any()
    assert any("embedding_backward" in names for names in regions(jitted).backward)
    assert regions_of(jitted)
