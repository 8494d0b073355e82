"""The callable of a region: one definition per layout, strides compared at every call."""

from __future__ import annotations

import torch

from tests.executor.jitted import jit, region
from tests.function_calls import entered


def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.sin(x) * y + 1


def test_each_layout_has_a_definition_of_its_own(device: torch.device) -> None:
    jfn = jit(program)
    x, y, wide, high = (torch.randn(s).to(device) for s in ((5, 5), (5, 5), (5, 10), (10, 5)))
    layouts = [x, x.t(), x[:1].expand(5, 5), wide[:, ::2], high[::2]]
    for layout in layouts:
        torch.testing.assert_close(jfn(layout, y), program(layout, y))
    found = region(jfn)
    assert len(found.definitions) == 5
    assert found.cache_info().misses == 5


def test_strides_of_one_layout_share_a_definition(device: torch.device) -> None:
    jfn = jit(program)
    y = torch.randn(5, 5).to(device)
    for width in (6, 7, 9):
        x = torch.randn(5, width).to(device)[:, :5]
        torch.testing.assert_close(jfn(x, y), program(x, y))
    assert len(region(jfn).definitions) == 1


def test_a_region_records_nothing_before_its_first_call() -> None:
    jfn = jit(program)
    jfn(torch.randn(3, 5), torch.randn(3, 5))
    found = region(jfn)
    assert found.last_used is found.definitions[0]
    assert found.cache_info().currsize == 1
    found.cache_clear()
    assert found.definitions == ()
    assert found.last_used is None
    assert found.cache_info() == (0, 0, found.cache_info().maxsize, 0)


def test_identical_regions_of_two_functions_share_a_leaf() -> None:
    first, second = jit(program), jit(lambda a, b: torch.sin(a) * b + 1)
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    first(x, y)
    second(x, y)
    assert region(first).last_used.leaf is region(second).last_used.leaf


def test_a_repeated_call_compares_strides_and_runs_the_program() -> None:
    jfn = jit(program)
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    jfn(x, y)
    found = region(jfn)
    compared, _ = found._last

    def strides(args: object) -> object:
        return compared

    def run(args: object) -> list[torch.Tensor]:
        return [x]

    found._strides, found._last = strides, (compared, run)
    assert entered(found, x, y) == ["__call__", "strides", "run"]
