"""The executor as Thunder sees it: registration, fuel, options, modes."""

from __future__ import annotations

import subprocess
import sys

import pytest
import thunder
import torch
from thunder.core.trace import from_trace
from thunder.executors.passes import update_fusion_call_ctx
from thunder.extend import FUEL_LEVEL, get_executor

import thunder_fuser
from tests.executor.jitted import check, jit, region, regions
from thunder_fuser import fuser


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x * y + x).exp() * y


def test_importing_registers_the_executor_by_name() -> None:
    assert get_executor("thunder_fuser") is fuser
    assert fuser.version == thunder_fuser.__version__
    jfn = thunder.jit(program, executors=["thunder_fuser"], fuser_evaluator=True)
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    torch.testing.assert_close(jfn(x, y), program(x, y))
    assert len(regions(jfn).forward) == 1


def test_importing_brings_little_beyond_thunder() -> None:
    """Small libraries, all of which a first call needs: none of those that draw or read reports."""
    script = (
        "import sys, thunder; known = set(sys.modules); import thunder_fuser; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - known})"
    )
    found = subprocess.check_output([sys.executable, "-W", "ignore", "-c", script], text=True)
    brought = set(found.split()) - {"thunder", "thunder_fuser"} - set(sys.stdlib_module_names)
    assert brought <= {"cuda", "filelock", "msgspec", "platformdirs"}


def test_fuel_bounds_the_number_of_regions() -> None:
    def cut(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = torch.cumprod(torch.sin(x) * 2, 0)
        b = torch.cumprod(torch.cos(y) + a, 0)
        return torch.exp(b) * 3

    x, y = torch.randn(3, 5), torch.randn(3, 5)
    try:
        for fuel in range(4):
            fuser.set_fuel(fuel)
            jfn = check(cut, x, y)
            assert len(regions(jfn).forward) == min(fuel, 3)
    finally:
        fuser.set_fuel(FUEL_LEVEL.UNLIMITED)
    with pytest.raises(ValueError, match="fuel -1 is negative"):
        fuser.set_fuel(-1)


def test_unknown_options_warn_with_the_near_name() -> None:
    with pytest.warns(UserWarning, match="fuser_stric is ignored; did you mean fuser_strict"):
        jit(program, fuser_stric=True)(torch.randn(3), torch.randn(3))


def test_fuse_is_idempotent_and_compiles_nothing() -> None:
    jfn = jit(program)
    jfn(torch.randn(3, 5), torch.randn(3, 5))
    trace = thunder.last_traces(jfn)[-1]
    fusions = from_trace(trace)
    fusions.bound_symbols = [b for b in trace.bound_symbols if b.sym.is_fusion]
    again = update_fusion_call_ctx(update_fusion_call_ctx(fusions))
    assert list(map(str, again.bound_symbols)) == list(map(str, fusions.bound_symbols))
    (fusion,) = again.bound_symbols
    assert fusion._call_ctx[fusion.sym.name].last_used is None


def test_no_grad_gives_no_backward() -> None:
    x = torch.randn(3, 5, requires_grad=True)
    with torch.no_grad():
        jfn = jit(program)
        assert not jfn(x, x).requires_grad
    assert regions(jfn).backward == ()


def test_autocast_is_followed() -> None:
    def linear(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.nn.functional.linear(x, w)) * 2

    x, w = torch.randn(3, 5), torch.randn(4, 5)
    with torch.autocast("cpu", torch.bfloat16):
        found, expected = jit(linear)(x, w), linear(x, w)
    assert found.dtype is expected.dtype
    torch.testing.assert_close(found.float(), expected.float(), rtol=2e-2, atol=2e-2)


def test_a_module_trains_as_in_eager() -> None:
    torch.manual_seed(0)
    ours = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.GELU(), torch.nn.Linear(7, 3))
    eager = torch.nn.Sequential(torch.nn.Linear(5, 7), torch.nn.GELU(), torch.nn.Linear(7, 3))
    eager.load_state_dict(ours.state_dict())
    x = torch.randn(4, 5)
    jit(ours)(x).square().sum().backward()
    eager(x).square().sum().backward()
    for mine, theirs in zip(ours.parameters(), eager.parameters(), strict=True):
        torch.testing.assert_close(mine.grad, theirs.grad)


def test_symbolic_values_share_one_trace_between_sizes(device: torch.device) -> None:
    def scaled(x: torch.Tensor, n: int) -> torch.Tensor:
        return torch.sin(x * n + 1)

    jfn = jit(scaled, cache="symbolic values", fuser_evaluator=False)
    for rows, n in ((3, 2), (7, 5), (4, 3)):
        x = torch.randn(rows, 5).to(device)
        torch.testing.assert_close(jfn(x, n), scaled(x, n))
    assert thunder.cache_misses(jfn) == 1
    assert len(regions(jfn).forward) == 1
    assert len(region(jfn).definitions) == 1


@pytest.mark.usefixtures("device")
def test_a_zero_dim_tensor_is_an_operand() -> None:
    check(lambda x, s: torch.sin(x * s) + s, torch.randn(3, 5), torch.randn(()))
