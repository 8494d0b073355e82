"""The axes of orders, groups and their sums."""

from __future__ import annotations

import pytest

from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import tensor
from thunder_fuser.ir.group_domains import GROUP_DOMAINS
from thunder_fuser.ir.scalar import constant, symbol

x, order = tensor(DataType.Float, 5, 60, 24), tensor(DataType.Int, 60)
ends = tensor(DataType.Int, 9)


def test_a_sum_reduces_over_the_order_and_runs_over_the_groups() -> None:
    made = GROUP_DOMAINS["group_sum"]((x, order, ends), {"dim": 1})
    sizes = [(a.size, a.is_reduction) for a in made.domain.logical]
    assert sizes == [(5, False), (9, False), (24, False), (60, True)]
    assert made.axis_maps == ((0, None, 2), (3,), (1,))


def test_pieces_are_the_whole_ones_of_the_order() -> None:
    made = GROUP_DOMAINS["group_pieces"]((x, order, order), {"dim": 1, "size": 16})
    assert [a.size for a in made.domain.without_reductions] == [5, 3, 24]
    assert made.axis_maps[2] == (None,)


def test_a_sum_of_picks_reduces_over_a_row_and_runs_over_the_places() -> None:
    index = tensor(DataType.Int, 5, 60, 24)
    made = GROUP_DOMAINS["pick_sum"]((x, index), {"dim": 1, "count": (constant(9),)})
    sizes = [(a.size, a.is_reduction) for a in made.domain.logical]
    assert sizes == [(5, False), (9, False), (24, False), (60, True)]
    assert made.axis_maps == ((0, 3, 2), (0, 3, 2))


def test_a_count_may_be_symbolic() -> None:
    n = symbol("n", DataType.Int)
    made = GROUP_DOMAINS["group_ends"]((order,), {"count": (n,)})
    assert [a.extent for a in made.domain.logical] == [n]
    (unit,) = GROUP_DOMAINS["group_ends"]((order,), {"count": (constant(1),)}).domain.logical
    assert unit.is_broadcast


def test_pieces_of_an_order_of_unknown_length_are_refused() -> None:
    n = symbol("n", DataType.Int)
    terms, places = tensor(DataType.Float, n, 4), tensor(DataType.Int, n)
    with pytest.raises(ValueError, match="pieces of 16 of an order of n"):
        GROUP_DOMAINS["group_pieces"]((terms, places, places), {"dim": 0, "size": 16})
