"""In-place programs: what Thunder's shared passes get wrong, and what one region can hold.

The programs and their failures are those of Thunder 0.2.6 with an executor that trusts its passes.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import thunder
import torch

from tests.devices import here
from tests.executor.jitted import check, jit, region, regions

pytestmark = pytest.mark.usefixtures("device")

FUSION_TYPES = pytest.mark.parametrize("fusion_type", ["consecutive", "dataflow"])


@FUSION_TYPES
def test_a_read_stays_before_the_write_that_follows_it(fusion_type: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x * 2
        x.copy_(y)
        return z + torch.sin(x)

    check(program, torch.randn(3, 5), torch.randn(3, 5), fusion_type=fusion_type)


@FUSION_TYPES
def test_a_read_is_not_recomputed_after_the_write(fusion_type: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x * 2
        z = z + 1
        x.copy_(y)
        return z + torch.sin(x) + torch.cumprod(y, 0)

    check(program, torch.randn(3, 5), torch.randn(3, 5), fusion_type=fusion_type)


@FUSION_TYPES
def test_a_write_is_done_once_when_an_unclaimed_op_cuts_the_region(fusion_type: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.mul_(2)
        z = torch.sin(x)
        x.mul_(3)
        return z + torch.cumprod(y, 0)

    check(program, torch.randn(3, 5), torch.randn(3, 5), fusion_type=fusion_type)


@FUSION_TYPES
def test_a_returned_view_shows_the_later_write(fusion_type: str, device: torch.device) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        v = x[:, 1:]
        w = y * 2
        x.add_(1)
        return v, w

    x, y = (torch.randn(3, 5).to(device) for _ in range(2))
    v, _ = jit(program, fusion_type=fusion_type)(x, y)
    assert torch.equal(v, x[:, 1:])
    assert v.data_ptr() == x[:, 1:].data_ptr()


def test_a_write_nothing_reads_is_not_lost(device: torch.device) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> None:
        x.copy_(torch.sin(y) * 2)

    x, y = (torch.randn(3, 5).to(device) for _ in range(2))
    jfn = jit(program)
    jfn(x, y)
    torch.testing.assert_close(x, torch.sin(y) * 2)
    assert regions(jfn).forward == (("sin", "mul", "copy_"),) or "copy_" in str(regions(jfn))


@FUSION_TYPES
def test_the_return_follows_a_write_that_nothing_reads(fusion_type: str) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.cumprod(x, 0)
        z.copy_(torch.sin(x) * 2)
        return x, y.reshape(-1)

    check(program, torch.randn(3, 5), torch.randn(3, 5), fusion_type=fusion_type)


def test_a_view_of_one_input_shows_the_write_through_another() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        part = y[1:]
        z = torch.cumprod(x, 0)
        flat = y.reshape(-1)
        part.add_(part)
        return z, part, flat

    options = {"fuser_shape_only": True, "fuser_single_op": True}
    check(program, torch.randn(4, 4), torch.randn(4, 4), **options)


def test_a_reshape_of_a_written_argument_is_written_in_turn() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        x.copy_(torch.sin(x))
        flat = x.reshape(-1)
        z = torch.cumprod(y, 0)
        flat.copy_(torch.sin(flat))
        return x - z, flat

    check(program, torch.randn(4, 4), torch.randn(4, 4))


def test_an_overlapping_write_into_a_view() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x[1:].copy_(x[:-1] * 2)
        return x + 1

    check(program, torch.randn(7))


@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.int16])
def test_memory_viewed_as_another_type_is_written_and_read(dtype: torch.dtype) -> None:
    def write(x: torch.Tensor) -> torch.Tensor:
        x.view(dtype).add_(1)
        return x * 2 + 1

    def read(x: torch.Tensor) -> torch.Tensor:
        v = x.view(dtype)
        x.mul_(2)
        return v + 1

    check(write, torch.randn(3, 6))
    check(read, torch.randn(3, 6))


def test_two_reads_around_a_write_share_one_region() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = x + y
        x.mul_(2)
        return z, x + y

    jfn = check(program, torch.randn(3, 5), torch.randn(3, 5))
    assert len(regions(jfn).forward) == 1


def test_a_running_statistic_shares_the_region_of_its_reader() -> None:
    def program(running: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        mean = x.sum(0) / 3
        running.mul_(0.9).add_(0.1 * mean)
        return x - mean

    jfn = check(program, torch.randn(5), torch.randn(3, 5))
    assert len(regions(jfn).forward) == 1


def test_crossed_writes_read_the_newest_values() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        x.add_(y)
        y.add_(x)
        x.mul_(y)
        return x, y + 1

    check(program, torch.randn(3, 5), torch.randn(3, 5))


def test_a_view_taken_before_a_write_is_read_after_it() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        v = x.t()
        x.add_(1)
        return v * 2

    check(program, torch.randn(3, 5))


def test_a_write_through_a_view_of_an_intermediate() -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        y[:2].add_(1)
        return y * 3

    check(program, torch.randn(5))


def test_equal_values_that_receive_different_writes_stay_two() -> None:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y, z, a, b = x * 2, x * 2, x.clone(), x.clone()
        y.add_(1)
        a.add_(1)
        return y, z, a, b

    check(program, torch.randn(3, 5))


def test_the_written_value_is_returned_as_a_tensor_of_its_own(device: torch.device) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = torch.sin(y) + 1
        x.copy_(z)
        return z, x

    x, y = (torch.randn(3, 5).to(device) for _ in range(2))
    z, written = jit(program)(x, y)
    assert torch.equal(z, written)
    assert written.data_ptr() == x.data_ptr() != z.data_ptr()


def test_a_bare_copy_gives_later_reads_of_its_target_the_new_value(device: torch.device) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = torch.exp(x) * y
        thunder.core.prims.copy_(z, x, grad_enabled=True)
        return x + y

    x, y = (torch.randn(3, 5).to(device) for _ in range(2))
    expected = torch.exp(x) * y
    found = jit(program)(x, y)
    torch.testing.assert_close(x, expected)
    torch.testing.assert_close(found, expected + y)


def test_a_forward_write_is_not_moved_to_the_backward(device: torch.device) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x * y
        z = z * x
        thunder.core.prims.copy_(z, x, grad_enabled=True)
        return y * y

    x, y = (torch.randn(3, 5).to(device) for _ in range(2))
    y.requires_grad_()
    expected = x * y.detach() * x
    found = jit(program)(x, y)
    torch.testing.assert_close(x, expected)
    cotangent = torch.randn_like(found)
    (gradient,) = torch.autograd.grad(found, y, cotangent)
    torch.testing.assert_close(gradient, 2 * y.detach() * cotangent)
    torch.testing.assert_close(x, expected)


def test_a_write_whose_region_copies_what_the_forward_reads_is_the_forwards(
    device: torch.device,
) -> None:
    """Other names of its arguments are all that the forward needs of the region."""

    def program(x: torch.Tensor, mean: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        thunder.core.prims.copy_(x.sum(0) * 0.1 + mean, mean, grad_enabled=True)
        same = x.to(torch.float32)
        return same.scatter_add(1, index, same)

    x, index = torch.randn(3, 12).to(device), torch.randint(12, (3, 12)).to(device)
    mean = torch.randn(12).to(device)
    expected = mean + x.sum(0) * 0.1
    found = jit(program)(x.clone().requires_grad_(), mean, index)
    torch.testing.assert_close(mean, expected)
    torch.testing.assert_close(found.detach(), x.scatter_add(1, index, x))


def test_batch_norm_updates_its_running_statistics(device: torch.device) -> None:
    ours, eager = (torch.nn.BatchNorm1d(5).to(device) for _ in range(2))
    jfn = jit(ours)
    for _ in range(2):
        x = torch.randn(7, 5).to(device)
        torch.testing.assert_close(jfn(x), eager(x))
    torch.testing.assert_close(ours.running_mean, eager.running_mean)
    torch.testing.assert_close(ours.running_var, eager.running_var)
    assert ours.num_batches_tracked == 2


def test_writing_a_leaf_that_requires_grad_is_refused(device: torch.device) -> None:
    def program(x: torch.Tensor) -> torch.Tensor:
        x.copy_(torch.sin(x) + 1)
        return x * 2

    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        jit(program)(torch.randn(3).to(device).requires_grad_())


def test_a_region_returns_the_target_itself(device: torch.device) -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x.add_(torch.sin(y))

    x, y = (torch.randn(3, 5).to(device) for _ in range(2))
    jfn = jit(program)
    assert jfn(x, y).data_ptr() == x.data_ptr()
    assert region(jfn).outputs


OWN_MEMORY: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "sums beside each row": lambda x: (x * 2).sum(1, keepdim=True),
    "turned and copied": lambda x: (x * 2).t().contiguous(),
}


@pytest.mark.parametrize("evaluator", [True, False])
@pytest.mark.parametrize("name", OWN_MEMORY)
def test_a_result_may_be_written_behind_the_program(name: str, evaluator: bool) -> None:
    """Where it has memory of its own in eager, it is no view to torch's autograd."""
    fn = OWN_MEMORY[name]

    def written(fn: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
        return lambda x: fn(x).mul_(3).sin()

    x = torch.randn(3, 5)
    ours, eager = x.clone().to(here()).requires_grad_(), x.clone().requires_grad_()
    found = written(jit(fn, fuser_evaluator=evaluator))(ours)
    expected = written(fn)(eager)
    torch.testing.assert_close(found.cpu(), expected)
    for result in (found, expected):
        result.sum().backward()
    torch.testing.assert_close(ours.grad.cpu(), eager.grad)


SEVERAL: dict[str, Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, ...]]] = {
    "broadcast": torch.broadcast_tensors,
    "in a grid": lambda x, y: (
        torch.meshgrid(x, y, indexing="ij")[0][:, 2],
        torch.meshgrid(x, y, indexing="ij")[1][3],
    ),
}


@pytest.mark.parametrize("position", [0, 1])
@pytest.mark.parametrize("name", SEVERAL)
def test_a_write_into_one_of_several_views_reaches_what_it_shows(name: str, position: int) -> None:
    views = SEVERAL[name]

    def into_an_argument(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        views(x, y)[position].add_(1)
        return x + y

    def into_a_value(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        shown = (x * 2, y * 3)
        views(*shown)[position].mul_(3)
        return shown[0] - shown[1]

    def behind(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        shown = (x * 2, y * 3)
        view = views(*shown)[position]
        shown[position].mul_(3)
        return view, shown[position]

    for program in (into_an_argument, into_a_value, behind):
        check(program, torch.randn(5), torch.randn(5))


def test_what_is_flipped_is_a_copy() -> None:
    def beside(x: torch.Tensor) -> torch.Tensor:
        t = x.flip(0)
        t.mul_(2)
        return torch.tanh(x) * 2

    def behind(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = x * 2
        t = y.flip(0, 1)
        t.mul_(3)
        y.add_(1)
        return t, t * 2, y.flip(1).t()

    def argument(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        t = x.flip(1)
        x.add_(1)
        return t, t.sin_() * 2, x[:, :1].flip(1)

    check(beside, torch.randn(3, 5, requires_grad=True))
    check(behind, torch.randn(3, 5, requires_grad=True))
    check(argument, torch.randn(3, 5))
    check(argument, torch.randn(3, 5), fuser_evaluator=False)
