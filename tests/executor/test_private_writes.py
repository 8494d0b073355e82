"""Writes into what a function makes itself, as values: the same results, fewer regions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.devices import here
from tests.executor.jitted import check, jit, regions, saved
from thunder_fuser.executor.storage import is_write, leaves

ROWS, COLUMNS = 13, 37

pytestmark = pytest.mark.usefixtures("device")


def draw(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(*shape, dtype=dtype, requires_grad=True)


def writes(jfn: Callable[..., object]) -> int:
    """How many writes are left in the traces of the last call."""
    traces = (thunder.last_traces(jfn)[-1], *(thunder.last_backward_traces(jfn) or [])[-1:])
    return sum(is_write(leaf) for trace in traces for leaf in leaves(trace.bound_symbols))


def test_a_mask_that_is_filled_in_place_is_part_of_the_softmax_and_not_kept() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(COLUMNS, COLUMNS, device=x.device).triu(diagonal=1)
        mask.masked_fill_(mask.bool(), torch.finfo(x.dtype).min)
        return x * (50 * torch.tanh(x / 50) + mask).softmax(-1)

    jfn = check(program, draw(3, COLUMNS, COLUMNS))
    assert len(regions(jfn).forward) == 1
    assert writes(jfn) == 0
    kept = saved(jfn)
    assert kept.pop("x") == 3 * COLUMNS * COLUMNS * 4
    assert set(kept.values()) == {3 * COLUMNS * 4}  # two numbers of each row


def test_several_writes_one_after_the_other_are_one_value() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        y.add_(1).mul_(x)
        y.clamp_(min=0)
        return y * 2

    jfn = check(program, torch.randn(ROWS, COLUMNS))
    assert writes(jfn) == 0


def test_a_value_of_another_type_is_converted() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.zeros(ROWS, COLUMNS, dtype=torch.bfloat16, device=x.device)
        y.copy_(x)
        return y.to(torch.float32) + 1

    jfn = check(program, torch.randn(ROWS, COLUMNS), fuser_strict=True)
    assert writes(jfn) == 0


def test_what_is_returned_shows_the_write_in_each_view() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.sin(x)
        row = y[3]
        y.add_(1)
        return y, row * 2

    check(program, torch.randn(ROWS, COLUMNS))


def test_a_view_that_is_older_than_a_write_shows_it() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        row = y[3]
        y.add_(1)
        return x + row

    check(program, torch.randn(ROWS, COLUMNS))


def test_a_write_into_a_view_changes_what_it_is_a_view_of() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        y[:, 2].mul_(3)
        y.transpose(0, 1).add_(1)
        return y + x

    check(program, torch.randn(ROWS, COLUMNS))


def test_a_source_that_is_written_later_was_copied_before() -> None:
    def program(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        kept = torch.zeros_like(state)
        kept.copy_(state)
        state.add_(1)
        return x * kept + state

    check(program, draw(ROWS, COLUMNS), torch.randn(COLUMNS))


def test_an_argument_that_is_written_through_what_may_be_a_view_of_it_is_written() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        flat = x.reshape(ROWS * COLUMNS)
        flat.mul_(2)
        return x + 1

    check(program, torch.randn(ROWS, COLUMNS))


def test_a_write_that_nothing_reads_is_nothing() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        z = y * 2
        y.add_(1)
        return z

    jfn = check(program, draw(ROWS, COLUMNS))
    assert writes(jfn) == 0


def test_a_copy_of_an_argument_is_written_and_the_argument_is_not() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x.clone()
        y.mul_(torch.sin(x))
        return y * 3

    jfn = check(program, torch.randn(ROWS, COLUMNS))
    assert writes(jfn) == 0


def test_a_private_write_beside_one_into_an_argument() -> None:
    def program(x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        y = torch.sin(x)
        both = (y, y.view(-1), state)
        state.add_(1)
        y.mul_(2)
        state.mul_(y[0])
        return y + both[2]

    check(program, torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS))


def test_a_write_outside_of_a_region_into_a_private_tensor() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        y = x @ w
        y.add_(1)
        z = y @ w
        y.mul_(2)
        return y + z

    jfn = check(program, torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS, COLUMNS) / COLUMNS)
    assert writes(jfn) == 0


OVERWRITTEN: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "activation": lambda x: F.silu(x * 3, inplace=True) * 2,
    "activation in pieces": lambda x: F.hardswish(x * 3, inplace=True) * 2,
    "chain": lambda x: (x * 3).add_(x).mul_(x) * 2,
    "factor": lambda x: (x * 3).mul_(x) * 2,
    "last": lambda x: (x * 3).square_(),
    "power": lambda x: (x * 3).pow_(3) * 2,
    "quotient": lambda x: (x * 3).div_(x.abs() + 1) * 2,
    "reduced": lambda x: (x * 3).sub_(x.mean(1, keepdim=True)).pow_(2).sum(0),
    "sine": lambda x: (x * 3).sin_() * 2,
}


@pytest.mark.parametrize("program", OVERWRITTEN)
def test_a_gradient_is_of_what_was_overwritten(program: str) -> None:
    """Where Thunder's own reads what was written."""
    jfn = check(OVERWRITTEN[program], draw(ROWS, COLUMNS))
    assert writes(jfn) == 0


def test_a_gradient_of_what_torch_computes_is_of_what_was_overwritten() -> None:
    w = torch.randn(8, 3, 3, 3, requires_grad=True)
    x = torch.randn(2, 3, 12, 12, requires_grad=True)
    check(lambda x, w: F.silu(F.conv2d(x, w), inplace=True) * 2, x, w)


def test_what_is_returned_before_and_after_a_write_is_one_tensor() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.sin(x)
        z = y.mul_(2)
        return y, z

    check(program, torch.randn(ROWS, COLUMNS))


def _into(target: torch.Tensor, source: torch.Tensor) -> torch.Tensor:
    return target.copy_(source)


COPIED: dict[str, Callable[[torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "argument": lambda x: (_into(torch.empty_like(x), x), x * 2),
    "view of it": lambda x: (_into(torch.empty_like(x).t(), x.t()), x * 2),
    "view of the copy": lambda x: (_into(torch.empty_like(x), x).view(-1), x * 2),
    "two copies": lambda x: (_into(torch.empty_like(x), y := x * 2), _into(torch.empty_like(x), y)),
    "result": lambda x: (_into(torch.empty_like(x), y := x * 2), y),
}


@pytest.mark.parametrize("name", COPIED)
def test_a_returned_copy_has_memory_of_its_own(name: str) -> None:
    def changed(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        copy, other = COPIED[name](x)
        return (copy, other, x)

    x = torch.randn(5, 7).to(here())
    check(changed, x)
    copy, other, given = jit(changed)(x)
    before = [other.clone(), given.clone()]
    copy.add_(1)
    assert torch.equal(other, before[0])
    assert torch.equal(given, before[1])


def test_a_new_value_is_no_copy() -> None:
    jfn = check(lambda x: torch.empty_like(x).copy_(x * 2), torch.randn(5, 7))
    assert writes(jfn) == 0


SPREAD: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expanded": lambda x: x[:1].expand(5, 7),
    "turned": lambda x: x.reshape(7, 5).t(),
    "a part": lambda x: x.repeat(2, 2)[::2, ::2],
}


@pytest.mark.parametrize("name", SPREAD)
def test_a_returned_copy_of_a_view_lies_as_its_target(name: str) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return (x * 2).copy_(SPREAD[name](x * 3))

    x = torch.randn(5, 7)
    check(program, x.clone().requires_grad_())
    found, expected = jit(program)(x.to(here())), program(x)
    assert found.stride() == expected.stride()
    for result in (found, expected):
        result[1].zero_()
    torch.testing.assert_close(found.cpu(), expected)
