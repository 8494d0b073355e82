"""Conversions that change nothing go; the rest read the original value."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check, jit, region, regions

pytestmark = pytest.mark.usefixtures("device")


def test_a_chain_of_conversions_reads_its_source() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = x.float()
        back = wide.to(torch.bfloat16)
        return back * 2, wide.double() + 1

    jfn = check(program, torch.randn(3, 5, dtype=torch.bfloat16))
    (names,) = regions(jfn).forward
    assert names.count("convert_element_type") <= 4
    converted = [b.args[0].name for b in region(jfn).bsyms if b.sym.name == "convert_element_type"]
    assert "x" in converted


def test_a_narrowing_conversion_undone_is_the_identity(device: torch.device) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x.to(torch.float16).float()) * 2

    x = torch.randn(3, 5).to(device)
    jfn = jit(program)
    torch.testing.assert_close(jfn(x), torch.sin(x) * 2, rtol=1e-6, atol=1e-6)
    assert regions(jfn).forward == (("sin", "mul"),)


def test_strict_keeps_the_rounding(device: torch.device) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x.to(torch.float16).float()) * 2

    x = torch.randn(3, 5).to(device)
    jfn = jit(program, fuser_strict=True)
    torch.testing.assert_close(
        jfn(x), torch.sin(x.to(torch.float16).float()) * 2, rtol=1e-6, atol=1e-6
    )
    assert regions(jfn).forward[0].count("convert_element_type") == 2


def test_integers_are_left_alone() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x.to(torch.int32).to(torch.float32)) * 2

    jfn = check(program, 3 * torch.randn(3, 5))
    assert regions(jfn).forward[0].count("convert_element_type") == 2


def test_a_converted_argument_is_returned_as_a_tensor_of_its_own(device: torch.device) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        wide = x.float()
        return wide.to(torch.bfloat16), torch.sin(wide)

    x = torch.randn(3, 5, dtype=torch.bfloat16).to(device)
    back, _ = jit(program)(x)
    assert torch.equal(back, x)
    assert back.data_ptr() != x.data_ptr()


VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "turned": lambda x: x.t(),
    "flat": lambda x: x.view(-1),
    "a row": lambda x: x[0],
    "with a dim more": lambda x: x.unsqueeze(0),
    "in order": lambda x: x.contiguous(),
}


@pytest.mark.parametrize("evaluator", [True, False])
@pytest.mark.parametrize("name", VIEWS)
def test_a_returned_view_of_a_cast_and_back_is_of_a_copy(
    name: str, evaluator: bool, device: torch.device
) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        return VIEWS[name](x.double().float()), VIEWS[name](y), VIEWS[name](y.double().float()), y

    x = torch.randn(3, 5)
    given = x.to(device, copy=True)
    results = jit(program, fuser_evaluator=evaluator)(given)
    for number, (result, expected) in enumerate(zip(results, program(x), strict=True)):
        torch.testing.assert_close(result.cpu(), expected)
        if number in (0, 2):
            result.zero_()
    torch.testing.assert_close(given.cpu(), x)
    torch.testing.assert_close(results[1].cpu(), VIEWS[name](x * 2))


@pytest.mark.parametrize(
    "method",
    ["half", "bfloat16", "float", "double", "byte", "char", "short", "int", "long"],
)
def test_conversion_methods_join_their_region(method: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return getattr(x * 2, method)() * 3

    x = torch.arange(-7.0, 8.0).abs().reshape(3, 5)
    jfn = check(program, x)
    (names,) = regions(jfn).forward
    assert names[0] == "mul"
    assert names.count("mul") == 2


def test_a_conversion_method_has_the_gradient_of_a_conversion(device: torch.device) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return torch.sin(x.half()).double() * 2

    x = torch.randn(3, 5).to(device).requires_grad_()
    jfn = jit(program)
    cotangent = torch.randn(3, 5, dtype=torch.float64).to(device)
    (found,) = torch.autograd.grad(jfn(x), x, cotangent)
    torch.testing.assert_close(found, (cotangent * 2 * x.cos()).float(), rtol=4e-3, atol=4e-3)
    assert len(regions(jfn).forward) == len(regions(jfn).backward) == 1


def _infinite(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * w
    return torch.isfinite(y).all(), torch.nan_to_num(y), torch.where(torch.isinf(y), 0.0, y)


def _largest(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * w
    most = y.amax(1, keepdim=True)
    return (y == most).float().sum(1), (most - y).sqrt()


def _differing(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * w
    most = y.amax(0)
    return 1 / (y - most >= 0).float().sum(0), 1 / (y == -(-y).amax(0)).float().sum(0)


def _above(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * w
    mask = y >= 1.5
    return y, mask, mask.float().sum(0)


@pytest.mark.usefixtures("widest_host")
@pytest.mark.parametrize("program", [_infinite, _largest, _differing, _above])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_what_is_compared_is_what_eager_compares(
    program: Callable[..., tuple[torch.Tensor, ...]], dtype: torch.dtype, device: torch.device
) -> None:
    """Of products in 16 bits: some in f16 are infinite, many are equal."""
    scale = 300.0 if program is _infinite else 1.0
    x, w = (scale * torch.randn(600, 96, device=device).to(dtype) for _ in "xw")
    found, wanted = jit(program)(x, w), program(x, w)
    for got, want in zip(found, wanted, strict=True):
        torch.testing.assert_close(got, want, rtol=2 * torch.finfo(dtype).eps, atol=1e-6)


@pytest.mark.usefixtures("widest_host")
def test_what_cancels_is_not_read_rounded(device: torch.device) -> None:
    """Shares near 1, of which one kernel stores 16 bits and another takes what is left."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shares = torch.softmax(x.float(), -1)
        return shares.bfloat16(), torch.log1p(-shares).sum(0).bfloat16()

    x = torch.randn(16, 40, 257) * 2 + 10 * (torch.arange(257) == 3)
    _, found = jit(program)(x.bfloat16().to(device))
    _, wanted = program(x.bfloat16().to(device))
    torch.testing.assert_close(found, wanted, rtol=0.02, atol=0.02)


def test_what_a_rounding_took_is_left_where_it_is_asked_for(device: torch.device) -> None:
    """Two halves of the digits of f32, as products of matrices in bf16 are made of."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        high = x.bfloat16()
        return high, (x - high.float()).bfloat16()

    x = torch.randn(40, 33, device=device)
    high, low = jit(program)(x)
    assert torch.equal(high, x.bfloat16())
    assert torch.equal(low, (x - high.float()).bfloat16())
