"""Bools beside whole numbers: 64 bits, as torch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check, jit

Program = Callable[[torch.Tensor], torch.Tensor]


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize(
    "program",
    [
        lambda x: (x > 0) * 300,
        lambda x: torch.where(x > 0, x < 1, 300),
        lambda x: ((x > 0) + 1) ** 9,
        lambda x: (x > 0) << 9,
        lambda x: torch.sort((x > 0) * 300)[0] + 1,  # torch's, between two regions
        lambda x: torch.clamp((x > 0) * 500, max=300).view(7, 1).expand(7, 3) + 1,
    ],
    ids=["mul", "where", "pow", "shift", "sort", "views"],
)
def test_a_bool_beside_a_number_is_int64(program: Program) -> None:
    check(program, torch.randn(7), fuser_single_op=True)


@pytest.mark.usefixtures("device")
def test_a_gradient_is_scaled_by_what_the_forward_multiplied_with() -> None:
    check(lambda x: (x > 0) * 300 * x, torch.randn(7, requires_grad=True))


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("cast", [lambda i: i.to(torch.int8), lambda i: i.char()])
def test_a_conversion_to_int8_stays_one(cast: Program) -> None:
    check(lambda x: cast((x > 0) * 300) + 1, torch.randn(7))


@pytest.mark.usefixtures("device")
def test_what_is_written_keeps_its_type() -> None:
    x, i = torch.randn(7), torch.randint(-9, 9, (7,), dtype=torch.int8)
    check(lambda x, i: (i.add_((x > 0) * 300), i * 2), x, i)
    check(lambda x, i: (i[1:].copy_((x[1:] > 0) * 2), (x > 0) * 300), x, i)
    check(lambda x, i: ((i * 1).mul_((x > 0) + 1), i.add_(1)), x, i)


@pytest.mark.usefixtures("device")
@pytest.mark.parametrize("is_single", [True, False])
def test_what_is_written_into_64_bits_has_these(is_single: bool) -> None:
    def added(x: torch.Tensor) -> torch.Tensor:
        y = (x > 0) * 100
        y.add_(100)
        return y

    def filled(x: torch.Tensor) -> torch.Tensor:
        y = (x > 0) + 1
        y.masked_fill_(x > 0, 300)
        return y * 2

    def copied(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        y = (x > 0) * 300
        y.copy_(i)
        return y * 100

    def kept(x: torch.Tensor, i: torch.Tensor) -> tuple[torch.Tensor, ...]:
        i.copy_((x > 0) * 3)
        return i * 2, (x > 0) * 300

    x, i = torch.randn(7), torch.randint(-9, 9, (7,), dtype=torch.int8)
    check(added, x, fuser_single_op=is_single)
    check(filled, x, fuser_single_op=is_single)
    check(copied, x, i, fuser_single_op=is_single)
    check(kept, x, i, fuser_single_op=is_single)


@pytest.mark.usefixtures("device")
def test_int8_beside_a_bool_stays_int8() -> None:
    x, dense = torch.randn(7), torch.randint(-9, 9, (7,), dtype=torch.int8)
    check(lambda x, i: (x > 0) * i + i, x, dense)
    check(lambda x, i: (x > 0) * i + 1, x, torch.tensor(3, dtype=torch.int8))


def test_a_tensor_of_rank_0_leaves_thunders_type() -> None:
    """What the type of each bool comes from is not told apart."""
    jfn = jit(lambda x, i: (x > 0) * i + (x > 0) * 2)
    found = jfn(torch.randn(7), torch.tensor(3, dtype=torch.int8))
    assert found.dtype is torch.int8
