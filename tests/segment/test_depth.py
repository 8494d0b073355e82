"""How many cuts lie before each tensor."""

from __future__ import annotations

import torch

from tests.programs import chain, expand, flip, full, fusion, like, reshape, stop, total
from thunder_fuser.analysis.reductions import is_scattered
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.segment.depth import depths

NONE: frozenset[TensorView] = frozenset()


def test_a_stop_point_is_one_cut_and_a_constant_lies_before_all() -> None:
    (a,) = like(torch.empty(4, 6))
    one = full(1.0, 4, 6)
    first = chain(a, "neg")
    stopped = stop(first)
    second = call("add", stopped, one)
    third = chain(stop(second), "exp")
    found = depths(fusion([a], third), NONE, frozenset({one}))
    assert [found[tv] for tv in (a, one, first, stopped, second, third)] == [0, 0, 0, 0, 1, 2]


def test_column_sums_can_be_used_one_by_one_but_not_row_by_row() -> None:
    (a,) = like(torch.empty(64, 48))
    down = total(a, 0)
    alone = chain(down, "exp")
    spread = call("mul", a, expand(reshape(alone, 1, 48), 64, 48))
    again = total(alone, 0)
    found = depths(fusion([a], spread, again), NONE, NONE)
    assert [found[tv] for tv in (down, alone, spread, again)] == [0, 0, 1, 1]


def test_late_sums_down_columns_are_behind_the_rows_of_their_terms() -> None:
    (a,) = like(torch.empty(64, 128))
    by = total(a, 1)
    away = call("sub", a, expand(reshape(by, 64, 1), 64, 128))
    down, alone = total(away, 0), total(a, 0)
    program = fusion([a], down, alone)
    beside = depths(program, NONE, NONE)
    assert [beside[tv] for tv in (by, away, down, alone)] == [0, 0, 0, 0]
    late = depths(program, NONE, NONE, is_late={down, alone}.__contains__)
    assert [late[tv] for tv in (by, away, down, alone)] == [0, 0, 1, 0]


def test_sums_down_columns_are_behind_rows_that_blocks_share() -> None:
    """Beside what follows from the rows: both read the plane once. The order of the program says
    nothing."""
    (a,) = like(torch.empty(64, 128))
    down, by = total(a, 0), total(a, 1)
    away = call("sub", a, expand(reshape(by, 64, 1), 64, 128))
    program = fusion([a], down, chain(down, "exp"), away)
    shared = depths(program, NONE, NONE, {by}.__contains__)
    assert [shared[tv] for tv in (by, away, *program.outputs)] == [0, 1, 1, 1, 1]
    beside = depths(program, NONE, NONE)
    assert [beside[tv] for tv in (by, away, *program.outputs)] == [0, 0, 0, 0, 0]


def test_scattered_sums_that_blocks_share_are_stored_before_their_elements_are_used() -> None:
    (a,) = like(torch.empty(8, 5, 49))
    channel = total(a, 0, 2)
    alone = chain(channel, "exp")
    spread = call("sub", a, expand(reshape(alone, 1, 5, 1), 8, 5, 49))
    again = total(call("mul", spread, spread), 0, 2)
    shared = depths(fusion([a], again), NONE, NONE, is_scattered)
    assert [shared[tv] for tv in (channel, alone, spread, again)] == [0, 0, 1, 1]
    held = depths(fusion([a], again), NONE, NONE)
    assert [held[tv] for tv in (channel, alone, spread, again)] == [0, 0, 0, 0]


def test_row_sums_are_used_in_the_rows_that_they_come_from() -> None:
    (a,) = like(torch.empty(64, 48))
    along = total(a, 1)
    spread = call("mul", a, expand(reshape(along, 64, 1), 64, 48))
    down = total(spread, 0)
    found = depths(fusion([a], down), NONE, NONE)
    assert {found[tv] for tv in (along, spread, down)} == {0}


def test_short_sums_of_row_sums_are_behind_a_cut() -> None:
    (a,) = like(torch.empty(2, 4, 64))
    along = total(a, 2)
    spread = call("sub", a, expand(reshape(along, 2, 4, 1), 2, 4, 64))
    joined = total(chain(along, "neg"), 1)
    found = depths(fusion([a], spread, joined), NONE, NONE)
    assert [found[tv] for tv in (along, spread, joined)] == [0, 0, 1]


def test_running_sums_are_used_one_by_one_in_their_rows() -> None:
    (a,) = like(torch.empty(64, 48))
    running = call("cumsum", a, dim=1, reverse=False)
    scaled = chain(running, "neg")
    last, turned = total(scaled, 1), chain(flip(scaled, 1), "exp")
    found = depths(fusion([a], last, turned), NONE, NONE)
    assert [found[tv] for tv in (running, scaled, last, turned)] == [0, 0, 0, 1]


def test_one_depth_walks_one_plane() -> None:
    a, b = like(torch.empty(64, 48), torch.empty(33, 40))
    first, other = total(a, 1), total(b, 1)
    found = depths(fusion([a, b], first, other), NONE, NONE)
    assert [found[first], found[other]] == [0, 1]


def test_what_torch_runs_lies_between_kernels() -> None:
    (a,) = like(torch.empty(64, 48))
    direct = total(a, 0)
    fed = total(chain(a, "neg"), 0)
    after = call("add", direct, fed)
    program = fusion([a], after)
    found = depths(program, frozenset({direct, fed}), NONE)
    assert [found[direct], found[fed], found[after]] == [0, 1, 2]


def test_every_cut_has_the_reason_of_its_first_tensor() -> None:
    (a,) = like(torch.empty(64, 48))
    down = total(a, 0)
    spread = call("mul", a, expand(reshape(down, 1, 48), 64, 48))
    whole = fusion([a], chain(stop(spread), "exp"))
    assert depths(whole, NONE, NONE).reasons() == {
        1: "needs a reduction down columns whole",
        2: "behind a stop point",
    }


def test_what_torch_computes_is_a_reason() -> None:
    (a,) = like(torch.empty(64, 48))
    down = total(a, 0)
    whole = fusion([a], chain(down, "exp"))
    assert depths(whole, frozenset({down}), NONE).reasons() == {
        1: "reads what a segment of torch's computes"
    }


def test_another_plane_is_a_reason() -> None:
    (a,) = like(torch.empty(64, 96))
    whole = fusion([a], total(a, 1), total(reshape(a, 128, 48), 1))
    assert depths(whole, NONE, NONE).reasons() == {
        1: "reduces over other axes than what is before it"
    }


def test_what_is_cut_nowhere_has_no_reasons() -> None:
    (a,) = like(torch.empty(64, 48))
    assert depths(fusion([a], total(chain(a, "exp"), 1)), NONE, NONE).reasons() == {}


def test_what_is_larger_than_the_plane_of_a_row_sum_lies_behind_it() -> None:
    """The last of two stages of a long row's maximum: 64 parts a row, used by 4096 elements."""
    (a,) = like(torch.empty(8, 4096))
    parts = call("max", reshape(a, 8, 64, 64), dims=(2,))
    top = call("max", parts, dims=(1,))
    column = reshape(top, 8, 1)
    below = call("sub", a, expand(column, 8, 4096))
    found = depths(fusion([a], below), NONE, NONE)
    assert [found[tv] for tv in (parts, top, column, below)] == [0, 1, 1, 2]
    assert depths(fusion([a], below), NONE, NONE).reasons() == {
        1: "reduces over other axes than what is before it",
        2: "is larger than what was reduced",
    }
