"""What lies in memory between kernels: stored, a view of something there, or never."""

from __future__ import annotations

import pytest
import torch

from tests.programs import (
    cat,
    chain,
    check,
    expand,
    full,
    fusion,
    like,
    pad,
    permute,
    piece,
    plan_of,
    reshape,
    stop,
    total,
)
from tests.segment.edges import constants_in, edges
from thunder_fuser.ir.build import call

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def test_a_returned_constant_is_written_once_and_read_never() -> None:
    x = torch.randn(1024)
    (a,) = like(x)
    constant = full(1.5, 1024)
    middle = stop(call("add", a, constant))
    plan = check(fusion([a], call("mul", middle, constant), constant), x)
    assert edges(plan) == ["f32[1024]"]
    assert constants_in(plan) == [True, True]
    writers = [s for s in plan.segmented.segments for t in s.stores if t.value.ndim == 1]
    assert len(writers) == 3, "the edge, the constant, the product"


def test_a_stop_of_a_constant_is_no_edge() -> None:
    x = torch.randn(6, 4)
    (a,) = like(x)
    plan = check(fusion([a], call("mul", a, stop(full(1.5, 6, 4)))), x)
    assert plan.launches == 1
    assert edges(plan) == []


def test_a_stop_at_a_view_of_an_input_launches_nothing() -> None:
    x = torch.randn(12, 10)
    (a,) = like(x)
    view = stop(permute(piece(a, 0, 2, 9), 1, 0))
    plan = check(fusion([a], chain(view, "neg")), x)
    assert plan.launches == 1
    assert edges(plan) == []
    assert "T3 is a view of T0: shape [10, 7] strides [1, 10] offset 20" in str(plan)


def test_slices_behind_a_stored_stop_are_views_of_it() -> None:
    """Cuts after the reshaped q of LitGPT's RoPE and after each slice of it."""
    x = torch.randn(2, 6, 48)
    (a,) = like(x)
    heads = permute(reshape(a, 2, 6, 2, 6, 4), 0, 2, 3, 1, 4)
    query = stop(reshape(piece(heads, 2, 0, 4), 2, 8, 6, 4))
    roped = stop(piece(query, 3, 0, 2))
    low, high = stop(piece(roped, 3, 0, 1)), stop(piece(query, 3, 1, 4))
    outputs = [chain(low, "neg"), chain(high, "abs"), call("mul", roped, roped)]
    plan = check(fusion([a], *outputs), x)
    assert edges(plan) == ["f32[2, 8, 6, 4]"]
    (edge,) = plan.segmented.edges
    views = {tv: v for tv, v in plan.segmented.views.items() if plan.segmented.storage(tv) is edge}
    assert {v.strides for v in views.values()} == {(192, 24, 4, 1)}
    assert sorted(v.offset for v in views.values()) == [0, 0, 1]


def test_a_stop_right_after_split_leaves_views_of_the_input() -> None:
    x = torch.randn(2, 6, 48)
    (a,) = like(x)
    heads = permute(reshape(a, 2, 6, 2, 6, 4), 0, 2, 3, 1, 4)
    parts = [stop(piece(heads, 2, *ends)) for ends in ((0, 4), (4, 5), (5, 6))]
    wide = stop(expand(parts[1], 2, 2, 4, 6, 4))
    plan = check(fusion([a], *(chain(p, "neg") for p in (*parts, wide))), x)
    assert edges(plan) == []
    views = [plan.segmented.views[tv] for tv in plan.segmented.views]
    assert [v.offset for v in views] == [0, 16, 20]
    assert all(v.strides[:2] + v.strides[3:] == (288, 24, 48, 1) for v in views)
    assert views[0].strides[2] == 4


def test_only_views_are_launched_by_nobody(device: torch.device) -> None:
    x = torch.randn(4, 6, 10)
    (a,) = like(x)
    outputs = [permute(a, 2, 0, 1), piece(a, 2, 3, 8), reshape(a, 24, 10)]
    given = x.to(device)
    plan = plan_of(fusion([a], *outputs), given)
    assert plan.launches == 0
    found = plan.run(given)
    wanted = [given.permute(2, 0, 1), given[..., 3:8], given.view(24, 10)]
    for got, want in zip(found, wanted, strict=True):
        assert (got.data_ptr(), got.stride(), got.shape) == (
            want.data_ptr(),
            want.stride(),
            want.shape,
        )


def test_a_view_of_an_output_is_computed_anew_in_the_kernel_that_writes_it() -> None:
    x = torch.randn(4, 8)
    (a,) = like(x)
    first = chain(stop(a), "neg")
    halves = reshape(first, 16, 2)
    padded = stop(pad(halves, [1, 2]))
    check(fusion([a], cat(padded, padded, dim=0), total(pad(halves, [1, 2]), 0), first), x)
