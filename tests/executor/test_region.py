"""The callable of a region: one definition per layout, tensors compared at every call."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import jit, region
from tests.function_calls import entered
from thunder_fuser.executor import region as executor_region


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


def test_alignments_of_one_layout_share_a_definition_and_have_a_plan_each(
    device: torch.device,
) -> None:
    """A kernel for aligned rows would read beside others."""
    jfn = jit(program)
    memory, y = torch.randn(33).to(device), torch.randn(4, 8).to(device)
    for shift in (0, 1, 0, 1):
        x = memory[shift : shift + 32].view(4, 8)
        torch.testing.assert_close(jfn(x, y), program(x, y))
    found = region(jfn)
    assert len(found.definitions) == 1
    assert len(found.definitions[0].leaf.program.plans) == 2
    assert found.cache_info().currsize == 2


def test_no_more_classes_are_remembered_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor_region, "MAX_CLASSES", 2)
    jfn = jit(program)
    y = torch.randn(5, 5)
    for width in (6, 7, 6, 8, 7, 6):
        x = torch.randn(5, width)[:, :5]
        torch.testing.assert_close(jfn(x, y), program(x, y))
    assert region(jfn).cache_info().currsize == 2


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


def test_a_repeated_call_compares_its_tensors_and_runs_the_program() -> None:
    jfn = jit(program)
    x, y = torch.randn(3, 5), torch.randn(3, 5)
    jfn(x, y)
    found = region(jfn)
    key, _ = found._last

    def compared(*args: object) -> object:
        return key

    def run(args: object) -> list[torch.Tensor]:
        return [x]

    found._key, found._last = compared, (key, run)
    assert entered(found, x, y) == ["__call__", "compared", "run"]


def test_what_torch_has_not_conjugated_yet_is_read_conjugated() -> None:
    jfn = jit(lambda x: torch.sin(x) * 2, fuser_evaluator=False)
    x = torch.randn(3, 5, dtype=torch.complex64)
    for given in (x, x.conj(), x, x.t().conj()):
        torch.testing.assert_close(jfn(given), torch.sin(given) * 2)
    again = jit(lambda x: x.conj() * x * 2, fuser_evaluator=False)  # conj is torch's
    torch.testing.assert_close(again(x), x.conj() * x * 2)


def test_what_torch_has_not_negated_yet_is_read_negated() -> None:
    given = torch.randn(3, 5, dtype=torch.complex64).conj().imag
    jfn = jit(lambda x: torch.sin(x) * 2, fuser_evaluator=False)
    torch.testing.assert_close(jfn(given), torch.sin(given) * 2)


def test_what_torch_has_not_negated_yet_is_no_plain_tensor() -> None:
    z = torch.randn(3, 5, dtype=torch.complex64)
    jfn = jit(lambda x: x * 2 + 1)
    for given in (z.imag, z.conj().imag, z.imag):  # of the same strides
        torch.testing.assert_close(jfn(given), given * 2 + 1)


def test_a_write_reaches_what_torch_has_not_conjugated_yet() -> None:
    x = torch.randn(3, 5, dtype=torch.complex64)
    given, expected = x.conj(), x.conj() * 2 + 1
    found = jit(lambda x: x.mul_(2).add_(1), fuser_evaluator=False)(given)
    torch.testing.assert_close(given, expected)
    torch.testing.assert_close(found, expected)
