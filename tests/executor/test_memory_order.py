"""Flash attention copies nothing of what a region gives it, and autograd no gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import thunder
import torch
from thunder.executors.sdpaex import sdpa_ex
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn import functional as F

from tests.executor.attention import KINDS, Calls, watch
from tests.executor.jitted import jit
from tests.executor.test_rope import rotate
from tests.programs import cuda_kernels
from tests.test_rope_kernels import widths
from thunder_fuser.codegen.emit import emit
from thunder_fuser.executor.attention import KERNELS
from thunder_fuser.executor.explain import regions_of
from thunder_fuser.executor.memory_order import ATTENTION

B, T, D = 2, 24, 16

Program = Callable[..., Any]
Strides = tuple[int, ...]


@pytest.fixture(params=KINDS)
def calls(
    request: pytest.FixtureRequest, device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> Calls:
    return watch(monkeypatch, request.param)


def rows_of_heads(heads: int) -> Strides:
    return (T * heads * D, D, heads * D, 1)


def row_major(heads: int) -> Strides:
    return (heads * T * D, T * D, D, 1)


def split(qkv: Tensor, heads: int, groups: int, size: int = D) -> list[Tensor]:
    """(B, T, (heads + 2 groups) size) -> q, k, v of shape (B, heads or groups, T, size)."""
    parts = qkv.split((heads * size, groups * size, groups * size), dim=-1)
    return [part.view(*part.shape[:2], -1, size).transpose(1, 2) for part in parts]


def joined(y: Tensor) -> Tensor:
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


def attention(heads: int, groups: int, size: int = D, is_returned: bool = False) -> Program:
    """As LitGPT's: the halves of q and k turn, and each group serves several heads."""

    def program(qkv: Tensor, cos: Tensor, sin: Tensor) -> Any:
        q, k, v = split(qkv, heads, groups, size)
        q, k = rotate(q, cos, sin, size), rotate(k, cos, sin, size)
        if groups != heads:
            k, v = (t.repeat_interleave(heads // groups, dim=1) for t in (k, v))
        y = joined(F.scaled_dot_product_attention(q, k, v, is_causal=True))
        return (y, q, k, v) if is_returned else y

    return program


def given(heads: int, groups: int) -> list[Tensor]:
    qkv = torch.randn(B, T, (heads + 2 * groups) * D).bfloat16().requires_grad_()
    return [qkv, torch.randn(T, D).bfloat16(), torch.randn(T, D).bfloat16()]


def run(calls: Calls, program: Program, args: list[Tensor], device: torch.device) -> Program:
    """The jitted program after a forward and a backward that are near to those in fp64."""
    ours = [a.detach().to(device).requires_grad_(a.requires_grad) for a in args]
    exact = [a.detach().double().requires_grad_(a.requires_grad) for a in args]
    jfn = calls.jit(program)
    found, wanted = jfn(*ours), program(*exact)
    cotangent = torch.randn(wanted.shape).bfloat16()
    found.backward(cotangent.to(device))
    wanted.backward(cotangent.double())
    assert_near(found, wanted)
    for our, true in zip(ours, exact, strict=True):
        if our.grad is not None:
            assert_near(our.grad, true.grad)
    return jfn


def assert_near(found: Tensor, exact: Tensor) -> None:
    """To the rounding of bf16, of which a gradient goes through several."""
    error = found.detach().cpu().double() - exact.detach()
    assert error.norm() < 0.03 * exact.norm()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3)])
def test_torch_lays_a_result_and_gradients_of_attention_like_what_they_belong_to(
    order: tuple[int, ...], kind: str
) -> None:
    """By torch's own shape functions; the gradient of the result lies as rows of heads."""
    shape, ops = (B, 4, T, D), torch.ops.aten
    with FakeTensorMode():
        made = torch.empty([shape[d] for d in order], dtype=torch.bfloat16, device="cuda")
        x = made.permute(order)
        if kind == "flash":
            y, lse, *rest = ops._scaled_dot_product_flash_attention(x, x, x, 0.0, True)
            grads = ops._scaled_dot_product_flash_attention_backward(
                y, x, x, x, y, lse, None, None, T, T, 0.0, True, rest[-3], rest[-2]
            )
        else:
            y, lse, *rest = ops._scaled_dot_product_cudnn_attention(x, x, x, None, True)
            grads = ops._scaled_dot_product_cudnn_attention_backward(
                y, x, x, x, y, lse, *rest[-3:-1], None, None, None, T, T, 0.0, True
            )
        assert y.stride() == x.stride()
        is_view = joined(y).untyped_storage()._cdata == y.untyped_storage()._cdata
        assert is_view == (order == (0, 2, 1, 3))
        assert [g.stride() for g in grads] == [x.stride()] * 3


@pytest.mark.parametrize(("heads", "groups"), [(6, 2), (4, 4)])
def test_nothing_is_copied_around_attention(
    heads: int, groups: int, calls: Calls, device: torch.device
) -> None:
    run(calls, attention(heads, groups), given(heads, groups), device)
    assert calls.copied == [set()]
    ((q, k, v),) = calls.strides
    assert q == k == rows_of_heads(heads)
    # Repeated heads are stored; as many values as heads are where the product put them.
    assert v == (rows_of_heads(heads) if heads != groups else (T * 3 * heads * D, D, 192, 1))


def test_a_result_of_attention_is_joined_without_a_copy(calls: Calls, device: torch.device) -> None:
    jfn = calls.jit(attention(4, 4))
    found = jfn(*[a.detach().to(device) for a in given(4, 4)])
    assert found._base is not None, "a view of what attention returned"


def test_rotated_heads_are_stored_in_one_kernel_by_vectors_as_wide_as_row_major(
    calls: Calls, device: torch.device
) -> None:
    """For an H200, at a length that fills it. What the caller is given stays row-major."""
    x, cos, sin = torch.randn(16, 256, 8 * 64), torch.randn(256, 64), torch.randn(256, 64)
    args = [a.bfloat16() for a in (x, cos, sin)]
    found = []
    for is_returned in (False, True):
        jfn = calls.jit(attention(4, 2, 64, is_returned))
        jfn(*(a.to(device) for a in args))
        (forward,) = regions_of(jfn)
        assert forward.last_used is not None
        _, (kernel,) = cuda_kernels(forward.last_used.leaf.program.fusion, *args)
        found.append(set(widths(emit(kernel).text)))
    assert found[0] == found[1]
    assert calls.strides[0] == [(256 * 256, 64, 256, 1)] * 3
    assert calls.strides[1] == [(256 * 256, 256 * 64, 64, 1)] * 3


def test_one_head_for_all_stays_expanded(calls: Calls, device: torch.device) -> None:
    """Its elements are never written once per head."""

    def program(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        k, v = (torch.tanh(t)[:, None].expand(B, 4, T, D) for t in (k, v))
        return joined(F.scaled_dot_product_attention(torch.tanh(q), k, v))

    args = [torch.randn(B, 4, T, D).bfloat16(), *torch.randn(2, B, T, D).bfloat16()]
    run(calls, program, [args[0].requires_grad_(), *args[1:]], device)
    ((q, k, v),) = calls.strides
    assert q == rows_of_heads(4)
    assert k == v == (T * D, 0, D, 1)


def test_a_result_without_a_gradient_lies_as_in_torch(device: torch.device) -> None:
    def program(x: Tensor) -> Tensor:
        return torch.exp(x * 2).t()

    x = torch.randn(8, 16, device=device)
    assert jit(program)(x).stride() == program(x).stride()


def test_a_gradient_that_passes_beside_a_sum_stays_where_it_is(
    calls: Calls, device: torch.device
) -> None:
    """The gradient of a bias of the same product shares a region with views of attention's."""

    def program(qkv: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        q, k, v = (torch.tanh(t) for t in split(qkv, 4, 4))
        y = F.scaled_dot_product_attention(q, k, v)
        return F.linear(joined(y), weight, bias)

    qkv, weight, bias = given(4, 4)[0], torch.randn(4 * D, 4 * D) / 8, torch.randn(4 * D)
    args = [qkv, weight.bfloat16().requires_grad_(), bias.bfloat16().requires_grad_()]
    jfn = run(calls, program, args, device)
    assert calls.copied == [set()]
    sums = [r for r in regions_of(jfn) if any(b.sym.name == "sum" for b in r.bsyms)]
    (plan,) = (plan for region in sums for plan in region.last_used.leaf.program.plans)
    assert [store.target.shape for s in plan.segmented.segments for store in s.stores] == [
        plan.segmented.fusion.outputs[0].shape
    ], "nothing is stored but the sum"


@pytest.mark.parametrize("reader", ["caller", "torch"])
def test_a_query_with_another_reader_stays_row_major(
    reader: str, calls: Calls, device: torch.device
) -> None:
    """The caller sees its strides, and an op of torch might copy it."""

    def program(x: Tensor) -> tuple[Tensor, Tensor]:
        q = torch.tanh(x)
        y = F.scaled_dot_product_attention(q, x, x)
        return y, (q if reader == "caller" else torch.matmul(q, x.mT))

    x = torch.randn(B, 4, T, D).bfloat16().to(device)
    calls.jit(program)(x)
    assert calls.strides[0][0] == row_major(4)


def test_heads_that_thunder_pads_stay_row_major(
    device: torch.device, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Padding copies them whatever their order. cuDNN takes none of these."""
    calls = watch(monkeypatch, "flash")
    x = torch.randn(B, 4, T, 20).bfloat16().to(device)
    jfn = calls.jit(lambda x: F.scaled_dot_product_attention(torch.tanh(x), x, x))
    jfn(x)
    assert "stride_order" not in str(thunder.last_traces(jfn)[-1])


def test_what_a_region_computes_of_a_query_reads_it_as_computed(
    calls: Calls, device: torch.device
) -> None:
    def program(x: Tensor) -> Tensor:
        q = torch.exp(x)
        total = q.sum((-1, -2), keepdim=True)
        return F.scaled_dot_product_attention(q, x, x) + total

    x = torch.randn(B, 4, T, D).bfloat16()
    run(calls, program, [x.requires_grad_()], device)
    assert calls.strides[0][0] == rows_of_heads(4)


def test_every_reader_is_a_symbol_of_an_attention_executor() -> None:
    known = (*sdpa_ex.opmap.values(), *KERNELS.opmap.values())
    assert ATTENTION.keys() <= {symbol.name for symbol in known}
