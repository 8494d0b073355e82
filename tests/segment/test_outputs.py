"""Which returned values are views: decided as eager does, and printed."""

from __future__ import annotations

import re

import pytest
import torch

from tests.programs import (
    cat,
    chain,
    check,
    flip,
    full,
    fusion,
    like,
    pad,
    permute,
    piece,
    reshape,
    stop,
    total,
    unsqueeze,
)
from thunder_fuser.ir.build import call

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def launches_and_views(program: object, *tensors: torch.Tensor) -> tuple[int, int]:
    plan = check(program, *tensors)  # type: ignore[arg-type]
    return plan.launches, len(plan.segmented.views)


def test_pieces_that_cover_a_computed_value_are_views_of_it() -> None:
    x = torch.randn(6, 10)
    (a,) = like(x)
    value = chain(a, "neg")
    halves = [piece(value, 1, 0, 4), piece(value, 1, 4, 10)]
    assert launches_and_views(fusion([a], *halves), x) == (1, 2)


def test_a_piece_alone_is_computed_alone() -> None:
    x = torch.randn(6, 10)
    (a,) = like(x)
    plan = check(fusion([a], piece(chain(a, "neg"), 1, 0, 4)), x)
    assert plan.segmented.views == {}
    assert re.search(r"= empty(_cuda)?\(\(6, 4\), \(4, 1\), ", plan.text), plan.text


def test_a_view_of_a_computed_output_shares_its_storage() -> None:
    x = torch.randn(6, 10)
    (a,) = like(x)
    value = chain(a, "neg")
    assert launches_and_views(fusion([a], permute(value, 1, 0), value), x) == (1, 1)


def test_a_view_behind_a_stored_stop_is_a_view_of_it() -> None:
    x = torch.randn(6, 10)
    (a,) = like(x)
    value = stop(chain(a, "neg"))
    assert launches_and_views(fusion([a], piece(value, 0, 1, 3)), x) == (1, 1)


def test_one_view_feeds_an_output_and_an_op() -> None:
    x = torch.randn(6, 10)
    (a,) = like(x)
    part = permute(piece(a, 1, 2, 7), 1, 0)
    plan = check(fusion([a], part, chain(part, "neg")), x)
    assert plan.launches == 1
    assert len(plan.segmented.views) == 1
    assert plan.segmented.edges == ()


@pytest.mark.parametrize(
    "make",
    [
        lambda a: call("set", a),
        lambda a: flip(a, 0),
        lambda a: reshape(permute(a, 1, 0), 60),
        lambda a: cat(a),
        lambda a: flip(unsqueeze(a, 1), 1),
        lambda a: flip(flip(a, 0), 0),
        lambda a: pad(a, [0, 0]),
        lambda a: pad(a, [0, -1]),
        lambda a: piece(pad(a, [1, 1]), 1, 1, 11),
        lambda a: permute(reshape(reshape(permute(a, 1, 0), 60), 10, 6), 1, 0),
    ],
    ids=["clone", "flip", "reshape", "cat", "one", "twice", "none", "less", "cut", "back"],
)
def test_what_eager_copies_is_copied(make: object) -> None:
    assert callable(make)
    x = torch.randn(6, 10)
    (a,) = like(x)
    assert launches_and_views(fusion([a], make(a)), x) == (1, 0)


@pytest.mark.parametrize("make", [lambda v: flip(unsqueeze(v, 1), 1), lambda v: pad(v, [0, 0])])
def test_a_copy_of_a_computed_output_has_memory_of_its_own(make: object) -> None:
    assert callable(make)
    x = torch.randn(6, 10)
    (a,) = like(x)
    value = chain(a, "neg")
    assert launches_and_views(fusion([a], value, make(value)), x)[1] == 0


def test_a_broadcast_result_is_a_view_and_read_without_extra_bytes() -> None:
    """NVIDIA/Fuser#3366 (g) and (h)."""
    x, y = torch.randn(6), torch.randn(6, 10)
    a, b = like(x, y)
    column = unsqueeze(a, 1)
    plan = check(fusion([a, b], column, call("mul", column, b)), x, y)
    assert plan.launches == 1
    assert plan.segmented.edge_bytes == 0
    assert len(plan.segmented.views) == 1


def test_a_returned_constant_and_its_view_are_one_buffer() -> None:
    one = full(1.0, 4, 6)
    x = torch.randn(2)
    (a,) = like(x)
    assert launches_and_views(fusion([a], one, permute(one, 1, 0)), x) == (1, 1)


# Reductions beside each other and beside shape ops


def test_reductions_of_one_signature_share_a_kernel() -> None:
    x = torch.randn(16, 64).round()
    (a,) = like(x)
    plan = check(fusion([a], total(a, 1), total(call("mul", a, a), 1)), x)
    assert plan.launches == 1


def test_a_statistic_is_updated_beside_its_reader() -> None:
    x, mean = torch.randn(16, 5).round(), torch.randn(5).round()
    a, m = like(x, mean)
    now = total(a, 0)
    plan = check(fusion([a, m], call("sub", a, now), writes=[(call("add", m, now), m)]), x, mean)
    assert plan.launches == 1


@pytest.mark.parametrize("dim", [0, 1])
def test_a_long_statistic_is_written_after_its_last_reader(dim: int) -> None:
    x = torch.randn(160, 160).round()
    mean = torch.randn(160).round()
    a, m = like(x, mean)
    now = total(a, dim)
    check(fusion([a, m], call("sub", a, m), writes=[(call("add", m, now), m)]), x, mean)
