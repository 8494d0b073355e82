"""amax, amin, argmax and argmin through Thunder, and the gradients of the first two."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder
import thunder.core.prims as prims
import thunder.torch as ltorch
import torch
from thunder.extend import OperatorExecutor

from tests.devices import here
from tests.executor.jitted import check, jit, region, regions, saved
from tests.executor.judging import judged
from thunder_fuser import explain, fuser

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}


@pytest.mark.parametrize("dim", [None, 0, -1])
@pytest.mark.parametrize("keepdim", [True, False])
def test_places_are_torchs(dim: int | None, keepdim: bool) -> None:
    x = (torch.randn(40, 131) * 2).round()
    check(lambda x: torch.argmax(x * 2, dim, keepdim), x, **KERNELS)
    check(lambda x: torch.argmin(x * 2, dim, keepdim), x, **KERNELS)


def test_the_chosen_elements_have_gradients() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.gather(x * 2, 1, torch.argmax(x, 1, keepdim=True)) + 1

    check(program, torch.randn(9, 131, requires_grad=True), **KERNELS)


def test_the_place_and_what_lies_there_are_one_region() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        place = torch.argmax(x, 1, keepdim=True)
        return place, torch.gather(x * 2, 1, place)

    jfn = check(program, torch.randn(9, 131), **KERNELS)
    (plan,) = region(jfn).plans()
    assert "take_along_axis reads what must be stored first" in plan


def test_what_has_no_place_is_left_to_torch() -> None:
    jfn = check(lambda x: (x * 2).argmax() + 1, torch.randn(()))
    assert "it reduces a dim of a tensor that has none" in explain(jfn)


def normalised(x: torch.Tensor) -> torch.Tensor:
    return x * torch.rsqrt(x.var(0, keepdim=True, correction=0) + 0.5)


COMPUTED: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "by what was rounded": lambda x: torch.amax(normalised(x), 0),
    "kept dim": lambda x: torch.amin(normalised(x), 0, keepdim=True),
    "other axis": lambda x: torch.amax(normalised(x), 1),
    "returned too": lambda x: (normalised(x) - torch.amax(normalised(x), 0)) * 2,
    "twice": lambda x: torch.amax(torch.amin(normalised(x).reshape(5, 13, -1), 0), 1),
    "by a mask": lambda x: (normalised(x) == torch.amax(normalised(x), 0)) * x.sin(),
}


@pytest.mark.parametrize("program", COMPUTED)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_gradients_of_extrema_of_what_is_computed_again(program: str, dtype: torch.dtype) -> None:
    # Which of two that differ in the last bits of 16 is the larger one is not eager's either.
    x = torch.randn(65, 17, dtype=dtype, device=here(), requires_grad=True)
    result = jit(COMPUTED[program], **KERNELS)(x)
    cotangent = torch.randn_like(result)
    (ours,) = torch.autograd.grad(result, x, cotangent)
    exact = x.detach().double().requires_grad_()
    (value,) = torch.autograd.grad(COMPUTED[program](exact), exact, cotangent.double())
    rounding = torch.finfo(dtype).eps * value.abs().max()
    if dtype is torch.float32:
        assert (ours.double() - value).abs().max() <= 8 * rounding
    else:
        sizes = ours.double().abs().sum(), value.abs().sum()
        assert abs(sizes[0] - sizes[1]) <= 0.1 * sizes[1]


@pytest.mark.usefixtures("widest_host")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_terms_are_compared_as_they_were_reduced(dtype: torch.dtype) -> None:
    def program(x: torch.Tensor, table: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        y = x.mT + torch.nn.functional.embedding(index, table)
        return y - y.clamp(-0.5, 0.5).amax(-1, keepdim=True)

    # The terms lie in memory in 16 bits between kernels; most of these rows have none above 0.5.
    x, table = (0.15 * torch.randn(*s, dtype=dtype) for s in ((100, 12, 20), (37, 12)))
    index = torch.randint(37, (100, 20))
    judged(program, [x, table, index], torch.randn(100, 20, 12, dtype=dtype), here())


def test_the_extremum_of_computed_values_is_found_again() -> None:
    jfn = check(lambda x: torch.amax(x.sin(), 0) * 2, torch.randn(9, 33, requires_grad=True))
    (backward,) = regions(jfn).backward
    assert backward.count("amax") == 1
    assert list(saved(jfn).values()) == [9 * 33 * 4]


@pytest.mark.parametrize("source", ["argument", "product"])
def test_the_extremum_of_what_is_in_memory_is_kept(source: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.amax((x if source == "argument" else x @ x.mT).float(), 0) * 2

    jfn = check(program, torch.randn(33, 33, requires_grad=True))
    assert 33 * 4 in saved(jfn).values()
    assert all("amax" not in region for region in regions(jfn).backward)


def test_a_comparison_of_computed_values_is_kept() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return torch.where(y == torch.amax(y, 1, keepdim=True), x * x, x.cos())

    jfn = check(program, torch.randn(9, 131, requires_grad=True), **KERNELS)
    assert 9 * 131 in saved(jfn).values()
    assert "eq" not in str(thunder.last_backward_traces(jfn)[-1])


@pytest.mark.parametrize(
    "program",
    [
        lambda x: torch.sigmoid(torch.amax(x * 2 + 1, 2)),
        lambda x: torch.logsumexp(x * 2 + 1, 2),
        lambda x: torch.softmax(x * 2 + 1, 2) * 3,
        lambda x: torch.max(torch.tanh(x), 0)[0],
    ],
    ids=["amax", "logsumexp", "softmax", "max"],
)
def test_gradients_of_extrema_of_no_rows_are_empty(program: Callable[..., torch.Tensor]) -> None:
    """Torch finds these, of a value that it alone has."""
    check(program, torch.randn(3, 0, 4, requires_grad=True), **KERNELS)


def test_an_extremum_that_another_executor_finds_stays_its_own() -> None:
    """Of the parts of its symbol nothing has a name outside."""
    other = OperatorExecutor("another_amax")
    found = other.register_operator("another_amax", like=ltorch.amax, fn=torch.amax)
    other.register_implementation(
        prims.amax, execution_transform=lambda a, dims: found(a, dims), checker=lambda *_: True
    )

    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.amax(torch.sin(x) * 2 + 1, 1) * 3

    x = torch.randn(9, 131, device=here(), requires_grad=True)
    y = thunder.jit(program, executors=[other, fuser])(x)
    cotangent = torch.randn_like(y)
    (ours,) = torch.autograd.grad(y, x, cotangent)
    (theirs,) = torch.autograd.grad(program(x), x, cotangent)
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("shape", [(16, 24), (31, 16), (70, 96), (1000, 1536)])
def test_one_of_the_elements_is_the_extremum_however_a_kernel_rounds_them(
    shape: tuple[int, int], dim: int
) -> None:
    """Were a product contracted with a sum in one scope of a kernel and not in another, none would
    be, and the gradient not a number."""

    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x * (1 + 0.1 * w)
        y = y * torch.sigmoid(y.mean(dim, keepdim=True)) - y.mean(dim, keepdim=True)
        return torch.amax(y * w + x, dim)

    device = here()
    x, w = (torch.randn(shape, device=device, requires_grad=True) for _ in "xw")
    result = jit(program, **KERNELS)(x, w)
    for gradient in torch.autograd.grad(result.sum(), (x, w)):
        assert gradient.isfinite().all()
        assert (gradient.abs().amax(dim) > 0).all()


def test_what_was_written_in_part_has_a_gradient_where_it_is_the_larger() -> None:
    """Its value has a name that a write gives to several tensors."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x.clone()
        z[..., 1:] = y[..., 1:] * 2
        return torch.maximum(z, y)

    check(program, *(torch.randn(3, 17, requires_grad=True) for _ in range(2)))
