"""Writes in place: which come last, which go straight to their target, and in what order."""

from __future__ import annotations

import pytest
import torch

from tests.programs import (
    STRICT,
    cat,
    chain,
    check,
    expand,
    flip,
    fusion,
    like,
    permute,
    piece,
    plan_of,
    reshape,
    stop,
    total,
    unsqueeze,
)
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def test_a_target_read_behind_a_stop_is_written_last() -> None:
    x = torch.randn(8, 8)
    (a,) = like(x)
    first = stop(chain(a, "neg"))
    second = stop(call("add", first, permute(a, 1, 0)))
    third = call("mul", second, a)
    plan = check(fusion([a], second, third, writes=[(call("mul", first, a), a)]), x)
    assert [s.is_in_place for s in plan.segmented.segments[-1].stores] == [True]


@pytest.mark.parametrize("view", ["stop", "bare"])
@pytest.mark.parametrize("size", [5, 33])
def test_a_target_read_elsewhere_than_it_is_written_is_copied_first(view: str, size: int) -> None:
    x = torch.randn(size, size)
    (a,) = like(x)
    turned = permute(a, 1, 0)
    value = stop(turned) if view == "stop" else turned
    check(fusion([a], writes=[(value, a)]), x)
    check(fusion([a], writes=[(chain(value, "neg"), a)]), x)
    check(fusion([a], writes=[(flip(value, 1), a)]), x)


def test_a_target_read_where_it_is_written_needs_no_copy() -> None:
    x, y = torch.randn(16, 33), torch.randn(33)
    a, b = like(x, y)
    plan = check(fusion([a, b], writes=[(call("mul", a, b), a)]), x, y)
    assert plan.launches == 1
    assert "empty" not in plan.text


@pytest.mark.parametrize("is_turned", [False, True])
def test_two_inputs_can_be_swapped(is_turned: bool) -> None:
    x, y = torch.randn(5, 5), torch.randn(5, 5)
    y = y.t() if is_turned else y
    a, b = like(x, y)
    check(fusion([a, b], writes=[(b, a), (a, b)]), x, y)


@pytest.mark.parametrize("is_turned", [False, True])
def test_crossed_updates_read_the_old_values(is_turned: bool) -> None:
    x, y = torch.randn(7, 7), torch.randn(7, 7)
    y = y.t() if is_turned else y
    a, b = like(x, y)
    writes = [(call("add", a, b), a), (call("sub", b, flip(a, 0)), b)]
    check(fusion([a, b], writes=writes), x, y)


def test_a_copy_of_the_old_value_is_taken_before_the_write() -> None:
    x = torch.randn(6, 10)
    (a,) = like(x)
    old = [call("set", a), reshape(permute(a, 1, 0), 60), cat(a, a)]
    check(fusion([a], *old, writes=[(chain(a, "neg"), a)]), x)


def test_a_returned_view_of_a_target_shows_the_new_value(device: torch.device) -> None:
    x = torch.randn(6, 10).to(device)
    before = x.clone()
    (a,) = like(x)
    new = chain(a, "neg")
    program = fusion([a], permute(a, 1, 0), new, piece(a, 1, 2, 5), writes=[(new, a)])
    turned, target, part = plan_of(program, x).run(x)
    assert target is x
    assert torch.equal(turned, -before.t())
    assert torch.equal(part, -before[:, 2:5])
    assert turned.data_ptr() == x.data_ptr()


def test_a_returned_stop_of_a_target_is_read_before_the_write(device: torch.device) -> None:
    x = torch.randn(6, 10).to(device)
    before = x.clone()
    (a,) = like(x)
    part = stop(piece(a, 1, 2, 5))
    program = fusion([a], part, chain(part, "neg"), writes=[(chain(a, "abs"), a)])
    shown, negated = plan_of(program, x).run(x)
    assert torch.equal(shown, before.abs()[:, 2:5])
    assert torch.equal(negated, -before[:, 2:5])


def test_a_long_sum_is_written_in_place_without_being_computed_again() -> None:
    x, y = torch.randn(7, 1000).round(), torch.randn(7)
    a, b = like(x, y)
    plan = check(fusion([a, b], writes=[(total(a, 1), b)]), x, y)
    reads = [list(tv.shape) for s in plan.segmented.segments for tv in s.inputs]
    assert reads.count([7, 1000]) == 1


def test_a_write_that_another_kernel_of_its_depth_reads_comes_last(device: torch.device) -> None:
    x, y, mean = torch.randint(9, (70, 12)), torch.randint(9, (12, 70)), torch.randint(9, (12,))
    a, b, m = like(x, y, mean)
    updated = call("add", m, total(a, 0))
    program = fusion([a, b, m], call("mul", total(b, 1), m), writes=[(updated, m)])
    check(program, x, y, mean)


def test_what_reads_the_old_value_is_not_put_off_behind_the_write() -> None:
    """Both `joined` and `other` could wait for the kernel of the running sums' readers."""
    x, y = torch.randint(9, (4, 5, 7)), torch.randint(9, (31, 5))
    a, b = like(x, y)
    least = call("min", a, dims=(0, 1, 2))
    for dim in range(3):
        least = unsqueeze(least, dim)
    first = stop(call("mul", a, expand(least, 4, 5, 7)))
    sums = call("cumsum", first, dim=2, reverse=False)
    joined, other = cat(first, a), stop(chain(b, "neg"))
    program = fusion([a, b], other, joined, cat(first, sums, dim=1), writes=[(sums, a)])
    check(program, x, y, options=STRICT)


def test_one_value_is_written_to_two_targets() -> None:
    x, y = torch.randn(7, 10), torch.randn(10, 7).t()
    a, b = like(x, y)
    new: TensorView = chain(a, "neg")
    check(fusion([a, b], writes=[(new, a), (new, b)]), x, y)


def test_an_empty_target_is_left_alone() -> None:
    x = torch.randn(0, 10)
    (a,) = like(x)
    plan = check(fusion([a], chain(a, "neg"), writes=[(chain(a, "abs"), a)]), x)
    assert plan.launches == 0
