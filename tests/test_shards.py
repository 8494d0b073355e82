"""Parts of the tests are disjoint and make up the whole."""

from __future__ import annotations

import pytest

from tests.shards import shard


@pytest.mark.parametrize("count", [1, 3, 7, 30])
def test_every_item_is_in_one_part(count: int) -> None:
    items = list(range(23))
    parts = [shard(items, f"{k}/{count}") for k in range(1, count + 1)]
    assert sorted(item for part in parts for item in part) == items
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


@pytest.mark.parametrize("part", ["", "3", "0/4", "5/4", "1/0", "-1/4", "1/4/2", "a/b"])
def test_another_part_is_a_wrong_call(part: str) -> None:
    with pytest.raises(pytest.UsageError, match="k/n"):
        shard([1, 2], part)
