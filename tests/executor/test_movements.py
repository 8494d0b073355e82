"""Rolls, stacks and the like that are opaque to Thunder are part of their regions."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F

from tests.devices import here
from tests.executor.jitted import check, jit
from thunder_fuser import explain
from thunder_fuser.executor.movements import MOVEMENTS

pytestmark = pytest.mark.usefixtures("device")
KERNELS = {"fuser_evaluator": False}
Program = Callable[[torch.Tensor], torch.Tensor]
PROGRAMS: dict[str, Program] = {
    "channel_shuffle": lambda x: F.channel_shuffle(x, 2),
    "column_stack": lambda x: torch.column_stack((x, x * x)),
    "column_stack of vectors": lambda x: torch.column_stack((x[0, 0, 0], x[1, 0, 0])),
    "detach": lambda x: x.detach() * x.exp(),
    "detach of rows' sums": lambda x: x * x.sum(-1, keepdim=True).detach() - x.detach(),
    "fliplr": lambda x: torch.fliplr(x),
    "flipud": lambda x: x.flipud(),
    "hstack": lambda x: torch.hstack([x, x * x]),
    "hstack of vectors": lambda x: torch.hstack((x[0, 0, 0], x[1, 0, 0])),
    "narrow": lambda x: x.narrow(1, 2, 5),
    "narrow from the end": lambda x: torch.narrow(x, -1, -4, 3),
    "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
    "pixel_unshuffle": lambda x: F.pixel_unshuffle(x, 2),
    "ravel": lambda x: x.transpose(0, 1).ravel(),
    "reshape_as": lambda x: x.reshape_as(x.transpose(0, 3)),
    "roll": lambda x: x.roll(2, 1),
    "roll of several": lambda x: torch.roll(x, shifts=(-3, 1), dims=(2, -1)),
    "roll of all": lambda x: x.roll(5),
    "roll by the extent": lambda x: x.roll(8, 1),
    "row_stack": lambda x: torch.row_stack((x, x * x)),
    "split_with_sizes": lambda x: torch.cat(x.split_with_sizes([1, 5], 2)[::-1], 2),
    "tile": lambda x: x.tile(2, 1, 1, 3),
    "tile along the last dims": lambda x: torch.tile(x, (2, 3)),
    "tile to more dims": lambda x: torch.tile(x, (2, 1, 1, 2, 1)),
    "vstack": lambda x: torch.vstack((x, x * x)),
    "vstack of vectors": lambda x: torch.vstack((x[0, 0, 0], x[1, 0, 0])),
}


def test_every_movement_is_tested() -> None:
    assert {f.__name__ for f in MOVEMENTS} == {name.split()[0] for name in PROGRAMS}


@pytest.mark.parametrize("name", PROGRAMS)
def test_values_and_gradients_are_torchs(name: str) -> None:
    x = torch.randn(3, 8, 6, 10, requires_grad=True)
    jfn = check(lambda x: PROGRAMS[name](x * 2) * 3, x, **KERNELS)
    assert "no rule for" not in explain(jfn)


LEFT: dict[str, Program] = {
    "of two types": lambda x: torch.vstack((x, x.double())),
    "of no dims": lambda x: torch.hstack((x[0, 0], x[0, 1])),
    "of vectors and rows": lambda x: torch.vstack((x, x[0])),
    "of nothing": lambda x: x[:0].ravel(),
}


@pytest.mark.parametrize("name", LEFT)
def test_the_rest_is_left_to_torch(name: str) -> None:
    jfn = check(lambda x: LEFT[name](x * 2), torch.randn(5, 33))
    assert "no rule for" in explain(jfn)


WRONG: dict[str, Program] = {
    "past the end": lambda x: x.narrow(0, 3, 3),
    "before the start": lambda x: x.narrow(0, -6, 2),
    "a negative length": lambda x: x.narrow(0, 0, -1),
    "no such dim": lambda x: torch.narrow(x, 2, 0, 1),
    "a vector has no rows": lambda x: torch.fliplr(x[0]),
    "rows of other lengths": lambda x: torch.vstack((x, x[:, :3])),
    "other sizes than there are": lambda x: x.split_with_sizes([2, 2])[0],
    "a negative size": lambda x: x.split_with_sizes([6, -1])[0],
    "elements that are not there": lambda x: x.reshape_as(x[:2]),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_torch_refuses_is_refused(name: str, device: torch.device) -> None:
    x = torch.randn(5, 33, device=device)
    with pytest.raises((RuntimeError, IndexError)):
        WRONG[name](x)
    with pytest.raises((RuntimeError, IndexError, ValueError)):
        jit(lambda x: WRONG[name](x * 2) * 3)(x)


@pytest.mark.parametrize("name", ["detach", "narrow", "ravel of whole rows", "split_with_sizes"])
def test_views_stay_views(name: str, device: torch.device) -> None:
    views: dict[str, Program] = {
        "detach": lambda x: x.detach(),
        "narrow": lambda x: x.narrow(1, 2, 5),
        "ravel of whole rows": lambda x: x.ravel(),
        "split_with_sizes": lambda x: x.split_with_sizes([1, 4])[1],
    }
    x = torch.randn(5, 33, device=device)
    found, wanted = jit(lambda x: (views[name](x), x * 2))(x)[0], views[name](x)
    assert found.data_ptr() == wanted.data_ptr()
    assert found.stride() == wanted.stride()


COPIED: dict[str, Program] = {
    "roll": lambda x: x.roll(0, 1),
    "roll of all": lambda x: x.roll(16),
    "roll back": lambda x: torch.roll(x, (1, -1), (0, 0)),
    "shuffle": lambda x: F.pixel_shuffle(x, 2),
    "unshuffle": lambda x: F.pixel_unshuffle(x, 1),
    "tile": lambda x: x.tile(1, 1),
    "tile to more dims": lambda x: x.tile(1, 1, 1, 1, 1),
    "stack": lambda x: torch.hstack([x]),
    "flip": lambda x: x[:, :, 0].fliplr().fliplr(),
}


@pytest.mark.parametrize("name", COPIED)
def test_a_result_that_moves_nothing_is_a_copy(name: str) -> None:
    def written(x: torch.Tensor) -> torch.Tensor:
        return COPIED[name](x).add_(1)

    check(written, torch.randn(4, 4, 1, 1))
    x = torch.randn(4, 4, 1, 1).to(here())
    result = jit(COPIED[name])(x)
    assert result.untyped_storage().data_ptr() != x.untyped_storage().data_ptr()


def test_what_is_straight_through_is_one_kernel() -> None:
    """Rounded in the forward; the gradient is that of what was not."""

    def rounded(x: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
        y = (x / scales).clamp(-8, 7)
        return (y + (torch.round(y) - y).detach()) * scales

    args = (torch.randn(37, 65, requires_grad=True), torch.rand(65) + 0.5)
    jfn = check(rounded, *args, **KERNELS)
    assert explain(jfn).count("segment 0 (kernel; the region)") == 2
    assert "no rule for" not in explain(jfn)


def test_a_detached_result_shows_the_memory_it_was_seen_in(device: torch.device) -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = x.exp()
        seen = y.detach()
        y.mul_(2)
        return y * x, seen

    x = torch.randn(5, 7, device=device)
    torch.testing.assert_close(jit(program, **KERNELS)(x), program(x))


def test_a_roll_of_windows_is_one_kernel() -> None:
    x = torch.randn(2, 14, 14, 96, requires_grad=True)
    jfn = check(lambda x: torch.roll(x, (-3, -3), (1, 2)) * 2, x, **KERNELS)
    assert explain(jfn).count("segment 0 (kernel; the region)") == 2
