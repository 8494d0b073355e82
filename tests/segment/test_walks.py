"""What the long reductions of one depth walk."""

from __future__ import annotations

import torch

from tests.programs import like, total
from thunder_fuser.segment.walks import Walks


def test_a_plane_has_a_depth_of_its_own() -> None:
    a, b = like(torch.empty(64, 48), torch.empty(33, 40))
    walks = Walks(lambda tv: False)
    along, other, down = total(a, 1), total(b, 1), total(a, 0)
    assert [walks.join(tv, 0) for tv in (along, other, down)] == [0, 1, 0]
    assert walks.planes == {0: (64, 48), 1: (33, 40)}
    assert walks.long == {0: {along, down}, 1: {other}}


def test_sums_down_columns_of_one_depth_are_of_one_shape() -> None:
    (a,) = like(torch.empty(64, 2, 48))
    walks = Walks(lambda tv: False)
    assert [walks.join(total(a, *dims), 0) for dims in ((0,), (0,), (0, 1))] == [0, 0, 1]


def test_sums_down_columns_are_not_where_blocks_share_the_rows() -> None:
    (a,) = like(torch.empty(64, 48))
    along, down = total(a, 1), total(a, 0)
    walks = Walks({along}.__contains__)
    assert [walks.join(tv, 0) for tv in (along, down, total(a, 1))] == [0, 1, 1]
