"""Results are copies and views where torch's are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.devices import here
from tests.executor.jitted import check, jit

pytestmark = pytest.mark.usefixtures("device")
Program = Callable[[torch.Tensor], torch.Tensor]

COPIED: dict[str, Program] = {
    "repeated once": lambda x: x.repeat(1, 1),
    "more dims": lambda x: x.repeat(3, 1, 1),
    "of one row": lambda x: x[:1].repeat(3, 1),
    "a number": lambda x: x[0, 0].repeat(3),
    "each once": lambda x: x.repeat_interleave(1, 0),
    "each of one column": lambda x: torch.repeat_interleave(x[:, :1], 3, dim=1),
    "all once": lambda x: x.repeat_interleave(1),
    "tiles of one row": lambda x: x[:1].tile(3, 1),
    "nothing flipped": lambda x: x.flip(()),
}


@pytest.mark.parametrize("name", COPIED)
def test_a_copy_is_a_copy(name: str) -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        return COPIED[name](x).add_(1)

    def written_behind(x: torch.Tensor) -> torch.Tensor:
        y = COPIED[name](x)
        x.add_(1)
        return y * 2

    check(written, torch.randn(4, 4))
    check(written_behind, torch.randn(4, 4))
    x = torch.randn(4, 4).to(here())
    results = jit(lambda x: (COPIED[name](x), x * 2))(x)
    assert results[0].untyped_storage().data_ptr() != x.untyped_storage().data_ptr()
    assert results[0].stride() == COPIED[name](x).stride()


ROUND = [torch.floor, torch.ceil, torch.round, torch.trunc]


@pytest.mark.parametrize("dtype", [torch.int64, torch.uint8], ids=str)
@pytest.mark.parametrize("op", [*ROUND, torch.abs], ids=lambda op: op.__name__)
def test_integers_rounded_are_copies(op: Program, dtype: torch.dtype) -> None:
    def written(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = op(x)
        y.add_(1)
        return y, x * 2

    x = torch.randint(0, 100, (4, 5), dtype=dtype)
    check(written, x)
    check(lambda x: getattr(x, op.__name__)().mul_(2), x)


def test_a_number_flipped_is_a_copy() -> None:
    check(lambda x: (x.flip(0).add_(1), x * 2), torch.randn(()))
    check(lambda x: torch.exp(x.flip(0)), torch.randn((), requires_grad=True))


def test_gradients_of_repetitions() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        return x.repeat(1, 1) * x[:1].repeat(4, 1) * x.repeat(3, 1, 1).repeat_interleave(1, 0)

    check(program, torch.randn(4, 4, requires_grad=True))


def test_one_head_that_many_queries_share_is_not_copied() -> None:
    def attend(q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
        keys, values = (k * 2).repeat_interleave(4, dim=1), (k * 3).repeat(1, 4, 1, 1)
        return F.scaled_dot_product_attention(q * 2, keys, values)

    jfn = check(attend, torch.randn(2, 4, 5, 8) / 4, torch.randn(2, 1, 5, 8) / 4)
    assert "clone" not in str(thunder.last_traces(jfn)[-1])


@pytest.mark.parametrize("place", [(0, 2, 1), (0, 2, 2), (1, 3, 2), (-1, 1, 1)])
def test_windows_are_views_and_have_gradients(place: tuple[int, int, int]) -> None:
    def read(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x.unfold(*place)) * 2

    def written(x: torch.Tensor) -> torch.Tensor:
        x.unfold(0, 2, 2).mul_(3)
        return x * 2 + torch.Tensor.unfold(x, 0, 1, 1)[..., 0]

    check(read, torch.randn(4, 5, requires_grad=True))
    check(written, torch.randn(4, 5))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("shape", [(), (1,), (5,), (4, 1), (4, 5)], ids=str)
def test_what_is_copied_is_expanded(shape: tuple[int, ...], dtype: torch.dtype) -> None:
    def into_a_value(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x * 2
        z.copy_(torch.exp(y))
        return z * x

    def into_a_result(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return (x * 2).copy_(y * 2)

    def into_an_argument(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.copy_(torch.exp(y) * 2)
        return x * 2

    y = torch.randn(shape, dtype=dtype)
    check(into_an_argument, torch.randn(4, 5), y)
    check(into_a_value, torch.randn(4, 5), y.requires_grad_())
    check(into_a_result, torch.randn(4, 5), y)


@pytest.mark.parametrize("size", [0, 1])
def test_the_window_of_a_number_has_a_gradient(size: int) -> None:
    check(lambda x: torch.exp(x.unfold(0, size, 1)) * 2, torch.randn((), requires_grad=True))


def test_the_function_unfold_stays_torchs() -> None:
    check(lambda x: F.unfold(x, 2) * 2, torch.randn(1, 2, 4, 5, requires_grad=True))


@pytest.mark.parametrize("equation", ["iijj->ji", "iijk->kij", "iiij -> ij", "abcd->dcba"])
def test_diagonals_of_an_einsum_are_views(equation: str) -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        torch.einsum(equation, x).mul_(3)
        return x * 2 + 1

    def read(x: torch.Tensor) -> torch.Tensor:
        return torch.exp(torch.einsum(equation, x * 2))

    check(written, torch.randn(3, 3, 3, 3))
    check(read, torch.randn(3, 3, 3, 3, requires_grad=True))


@pytest.mark.parametrize("equation", ["ii->", "ii", "ij->i", "ii->ii", "ii->ij"])
def test_other_sums_of_one_tensor_are_left_to_thunder(equation: str) -> None:
    x = torch.randn(3, 3)
    try:
        torch.einsum(equation, x)
    except RuntimeError:
        with pytest.raises((RuntimeError, ValueError)):
            jit(lambda x: torch.einsum(equation, x))(x)
    else:
        check(lambda x: torch.einsum(equation, x) * 2, x)


TRUE_KEYS = [True, (None, True), (..., True), (True, 1), (1, True), (slice(1, 3), True)]


@pytest.mark.parametrize("key", TRUE_KEYS, ids=str)
def test_true_is_a_dim_of_a_copy(key: object) -> None:
    check(lambda x: (x * 2)[key] + 1, torch.randn(4, 5, requires_grad=True))
    check(lambda x: (x[key].add_(1) * 2, x * 2), torch.randn(4, 5))


@pytest.mark.parametrize("key", [False, (True, True), (True, [0, 1])], ids=str)
def test_other_bools_are_refused(key: object) -> None:
    with pytest.raises(NotImplementedError, match="of bools it takes one True"):
        jit(lambda x: x[key] * 2)(torch.randn(4, 5))
