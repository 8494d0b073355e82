"""Gradients of products run no product again, and other names of products are those."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder
import torch

from tests.executor.jitted import check, jit
from thunder_fuser import explain
from thunder_fuser.executor.products import GRADIENTS

pytestmark = pytest.mark.usefixtures("device")
Program = Callable[..., torch.Tensor]
# Of b [7], x [5, 33], w [33, 7] and v [33].
ADDED: dict[str, Program] = {
    "addmm": lambda b, x, w, v: torch.addmm(b, x * v, w),
    "addmm of a matrix": lambda b, x, w, v: (
        torch.addmm(x @ w * b, x, w, beta=0.5, alpha=2.0) + v.sum(0, True)
    ),
    "addmm of a column": lambda b, x, w, v: torch.addmm((x * v).sum(1, True), x, w * b, alpha=3),
    "addmm as a method": lambda b, x, w, v: b.addmm(mat1=x * v, mat2=w),
    "addmm of no sum": lambda b, x, w, v: torch.addmm(b, x, w, beta=0) * v.sum(0, True),
    "addmv": lambda b, x, w, v: torch.addmv(b, w.t(), v, beta=0.3) * x.sum(1, True),
    "addmv of one": lambda b, x, w, v: (
        torch.addmv(b.sum(0, True), x, v, alpha=0.3) + w.sum(0, True).t()
    ),
}
NAMES: dict[str, Program] = {
    "dot": lambda b, x, w, v: (x @ w + b) * v.dot(v * v).reshape(1),
    "ger": lambda b, x, w, v: x @ (torch.ger(b, v).t() * w),
    "mv": lambda b, x, w, v: torch.mv(x, v).unsqueeze(1) * b + w.sum(0),
}


def operands(dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    shapes = ((7,), (5, 33), (33, 7), (33,))
    return [torch.randn(s, dtype=dtype, requires_grad=True) for s in shapes]


def test_every_gradient_is_tested() -> None:
    assert {name.split()[0] for name in ADDED} == {s.removeprefix("torch.") for s in GRADIENTS}


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", ADDED)
def test_gradients_are_torchs_and_no_product_runs_again(name: str, dtype: torch.dtype) -> None:
    jfn = check(ADDED[name], *operands(dtype))
    assert "addm" not in str(thunder.last_backward_traces(jfn)[-1])


def test_gradients_of_complex_products_are_of_the_conjugate() -> None:
    b, x, w, v = operands(torch.complex64)
    check(lambda b, x, w: torch.addmm(b, x, w, alpha=2), b, x, w)
    check(lambda b, w, v: torch.addmv(b, w.t(), v), b, w, v)


def test_gradients_of_16_bits_are_as_exact_as_eagers(device: torch.device) -> None:
    given = [t.detach().to(device).bfloat16() for t in operands()[:3]]
    cotangent = torch.randn(5, 7, device=device).bfloat16()

    def gradients(fn: Callable[..., torch.Tensor], dtype: torch.dtype) -> list[torch.Tensor]:
        tensors = [t.to(dtype).requires_grad_() for t in given]
        return list(torch.autograd.grad(fn(*tensors), tensors, cotangent.to(dtype)))

    exact = gradients(torch.addmm, torch.float64)
    found, eager = (gradients(f, torch.bfloat16) for f in (jit(torch.addmm), torch.addmm))
    for ours, theirs, wanted in zip(found, eager, exact, strict=True):
        error, allowed = ((t.double() - wanted).abs().max() for t in (ours, theirs))
        assert ours.dtype is torch.bfloat16
        assert error <= 2 * allowed + 2**-8 * wanted.abs().max()


@pytest.mark.parametrize("name", NAMES)
def test_other_names(name: str) -> None:
    jfn = check(NAMES[name], *operands(torch.float64))
    assert f"no rule for {name}" not in explain(jfn)


@pytest.mark.parametrize(
    "program",
    [
        lambda b, x, w, v: torch.dot(x, b),
        lambda b, x, w, v: torch.mv(x, b),
        lambda b, x, w, v: x.ger(b),
    ],
    ids=["dot", "mv", "ger"],
)
def test_what_torch_refuses_is_refused(program: Program, device: torch.device) -> None:
    given = [t.detach().to(device) for t in operands()]
    with pytest.raises(RuntimeError):
        jit(program)(*given)
