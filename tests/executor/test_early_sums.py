"""Sums that stand behind products of matrices join the region that makes their terms."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from tests.executor.jitted import check, regions

pytestmark = pytest.mark.usefixtures("device")


def draw(*shape: int) -> torch.Tensor:
    """Of f64, whose order of summation no tolerance sees."""
    return torch.randn(*shape, dtype=torch.float64)


def mlp(
    x: torch.Tensor, w: torch.Tensor, b: torch.Tensor, v: torch.Tensor, c: torch.Tensor
) -> torch.Tensor:
    return F.linear(torch.tanh(F.linear(x, w, b)), v, c)


def test_the_gradient_of_a_bias_is_summed_where_the_gradient_of_its_input_is_made() -> None:
    args = (draw(40, 8), draw(96, 8), draw(96), draw(8, 96), draw(8))
    jfn = check(mlp, *(x.requires_grad_() for x in args))
    (found,) = (names for names in regions(jfn).backward if "sum" in names)
    assert found[-2:] == ("sum", "reshape")  # right behind the derivative of tanh


@pytest.mark.parametrize("is_read", [False, True])
def test_sums_of_what_a_later_run_reads_anyway_stay_there(is_read: bool) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        a = torch.sin(x) * 2
        product = torch.cumprod(a, 0)
        return product * a.sum(0) + (a if is_read else 1)

    jfn = check(program, draw(40, 40))
    assert [("sum" in names) for names in regions(jfn).forward] == [not is_read, is_read]


def test_sums_of_pieces_stay_with_a_kernel_of_their_own() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        a = torch.cat((torch.sin(x), -y), 1) * 2
        return torch.cumprod(a, 0) * a.sum(0)

    jfn = check(program, draw(40, 8), draw(40, 16))
    assert [("sum" in names) for names in regions(jfn).forward] == [False, True]


def test_a_sum_stays_behind_the_write_of_its_terms_and_before_the_next_one() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.sin(x)
        first = a @ w
        before = a.sum(0)
        a.mul_(2)
        second = a @ w
        after = a.sum(0)
        a.add_(1)
        return first, before, second, after, a

    check(program, draw(40, 40), draw(40, 40))


def test_a_sum_of_sums_that_moved_stays() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.sin(x) * 2
        first = torch.cumprod(a, 0)
        down = a.sum(0)
        second = torch.cumprod(torch.cos(first), 0)
        return second * 2, down, down.sum(), torch.cumprod(torch.cos(second) + down.sum(), 0)

    jfn = check(program, draw(40, 40))
    assert [names.count("sum") for names in regions(jfn).forward][:1] == [1]


def test_sums_along_rows_and_several_of_one_tensor_move_too() -> None:
    def program(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        a = torch.exp(x)
        product = a @ w
        return torch.cos(product), a.sum(0), a.amax(1), torch.sin(product) * 2

    jfn = check(program, draw(40, 40), draw(40, 40))
    first, second = regions(jfn).forward
    assert {"exp", "sum", "amax"} <= set(first)
    assert {"sum", "amax"}.isdisjoint(second)


def test_a_sum_of_what_is_stored_in_few_bytes_reads_those() -> None:
    """Behind the rows of a norm: its kernel could not sum down their columns."""

    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = torch.softmax(x, -1)
        return y, y.sum(0)

    jfn = check(program, torch.randn(61, 64, dtype=torch.bfloat16))
    (found,) = regions(jfn).forward
    assert found.count("convert_element_type") == 4  # what is returned is widened again for its sum
