"""Sums of whole rows by an index that lies the same along a row: one fusion, which keeps an index a
row, and torch's values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from tests.executor.jitted import check, jit, regions, saved
from thunder_fuser.executor.scatters import MAX_PLACES
from thunder_fuser.runtime.errors import IndexRangeError

pytestmark = pytest.mark.usefixtures("device")
MANY = MAX_PLACES + 4


def table(*shape: int) -> torch.Tensor:
    return torch.randn(shape, requires_grad=True)


def picks(*shape: int, of: int) -> torch.Tensor:
    """Some places twice."""
    return torch.randint(of, shape)


PICKS: dict[str, Callable[[torch.Tensor, torch.Tensor], torch.Tensor]] = {
    "expanded": lambda x, i: torch.gather(x * 2, 1, i[..., None].expand(-1, -1, x.shape[2])) + 1,
    "repeated": lambda x, i: torch.gather(x * 2, 1, i[..., None].repeat(1, 1, x.shape[2])) + 1,
    "broadcast": lambda x, i: torch.take_along_dim(x * 2, i[..., None], 1) + 1,
    "narrow": lambda x, i: torch.gather(x * 2, 1, i.int()[..., None].expand(-1, -1, 5).long()) + 1,
}


@pytest.mark.parametrize("name", PICKS)
def test_the_gradient_of_picked_tokens_is_a_sum_of_rows(name: str) -> None:
    index = picks(3, MANY, of=7)
    jfn = check(PICKS[name], table(3, 7, 5), index)
    (backward,) = regions(jfn).backward
    assert "index_put" in backward
    assert sum(saved(jfn).values()) <= index.nbytes


def test_heads_that_share_an_index_have_places_of_their_own() -> None:
    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.gather(x * 2, 2, i[:, None, :, None].expand(-1, 3, -1, 5)) + 1

    jfn = check(program, table(2, 3, 7, 5), picks(2, MANY, of=7))
    assert "index_put" in regions(jfn).backward[0]


def test_one_index_for_all_rows_adds_them() -> None:
    """As of edges of a graph."""

    def program(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(0, i[:, None].expand_as(v), v * 2) + 1

    jfn = check(program, table(7, 5), picks(MANY, of=7), table(MANY, 5))
    (forward,) = regions(jfn).forward
    assert "index_add" in forward


def test_columns_of_one_index_are_added() -> None:
    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.gather(x * 2, 1, i.expand(x.shape[0], -1)) + 1

    jfn = check(program, table(3, 7), picks(MANY, of=7))
    assert "index_add" in regions(jfn).backward[0]


@pytest.mark.parametrize("shape", [(3, MANY, 5), (1, MANY, 1), (3, MANY, 1)])
def test_an_index_that_is_no_broadcast_is_no_sum_of_rows(shape: tuple[int, ...]) -> None:
    """Unless a row has one element."""

    def program(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
        return torch.gather(x * 2, 1, i) + 1

    jfn = check(program, table(shape[0], 7, shape[2]), picks(*shape, of=7))
    names = {name for region in regions(jfn).backward for name in region}
    assert ("index_put" in names) == (shape[2] == 1 and shape[0] > 1)
    assert ("index_add" in names) == (shape[:1] + shape[2:] == (1, 1))


@pytest.mark.parametrize("bad", [-1, 7])
def test_a_place_out_of_range_is_an_error(bad: int) -> None:
    """A negative one too, which counts from the end in brackets only."""
    if torch.cuda.is_available():
        pytest.skip("a failed assertion ends the process's use of the GPU")
    index = picks(3, MANY, of=7)
    index[1, 2] = bad

    def program(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(1, i[..., None].expand_as(v), v * 2) + 1

    with pytest.raises(IndexRangeError, match=r"out of range .* extent 7"):
        jit(program, fuser_evaluator=False)(torch.randn(3, 7, 5), index, torch.randn(3, MANY, 5))


def test_an_empty_index_adds_nothing() -> None:
    def program(x: torch.Tensor, i: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return x.scatter_add(1, i[..., None].expand_as(v), v * 2) + 1

    check(program, table(3, 7, 5), picks(3, 0, of=7), table(3, 0, 5))
