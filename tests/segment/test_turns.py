"""Which launches walk memory from its end."""

from __future__ import annotations

import pytest
import torch

from tests.programs import H200, chain, expand, fusion, like, piece, reshape, stop, total
from thunder_fuser.analysis.reductions import is_long
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.pipeline import cut_region
from thunder_fuser.runtime.bind import bind
from thunder_fuser.segment.segmented import SegmentedFusion
from thunder_fuser.segment.turns import turned

L2 = 1 << 20
HALF = L2 // 8  # f32 elements of half of it


def stages(elements: int, count: int = 3) -> SegmentedFusion:
    """A plane that goes from launch to launch."""
    x = torch.empty(elements // 64, 64)
    (a,) = like(x)
    made = a
    for _ in range(count - 1):
        made = stop(chain(made, "neg"))
    return cut_of(fusion([a], chain(made, "exp")), x)


def cut_of(program: Fusion, *tensors: torch.Tensor) -> SegmentedFusion:
    bound = bind(program, tensors)
    return cut_region(bound.fusion, bound.layouts, H200, strict=False)


def ways(segmented: SegmentedFusion, l2_bytes: int = L2) -> list[bool]:
    return [s.is_reversed for s in turned(segmented, l2_bytes).segments]


def test_each_launch_begins_where_the_one_before_stopped() -> None:
    found = turned(stages(HALF, 4), L2)
    assert [s.is_reversed for s in found.segments] == [False, True, False, True]
    lines = str(found).splitlines()[:4]
    assert [", from the end of memory;" in line for line in lines] == [False, True, False, True]


@pytest.mark.parametrize(
    ("elements", "expected"), [(HALF, True), (HALF // 2 + 64, True), (HALF // 2, False)]
)
def test_what_the_cache_holds_is_walked_in_any_order(elements: int, expected: bool) -> None:
    """A launch reads and writes so many elements: of half of the cache all is found anyway."""
    assert ways(stages(elements, 2)) == [False, expected]


def test_without_a_known_cache_all_walk_forward() -> None:
    assert ways(stages(HALF), 0) == [False] * 3


def test_what_is_handed_on_is_written_for_the_next_launch() -> None:
    first, second, last = turned(stages(HALF), L2).segments
    assert first.handed_on == {store.target for store in first.stores}
    assert second.handed_on == {store.target for store in second.stores}
    assert not last.handed_on


def test_launches_that_share_little_do_not_turn() -> None:
    x, y = torch.empty(HALF // 64, 64), torch.empty(HALF // 64, 64)
    a, b = like(x, y)
    few = torch.empty(64)
    (c,) = like(few)
    first = stop(call("add", chain(a, "neg"), expand(c, *x.shape)))
    program = fusion(
        [a, b, c], first, call("mul", chain(b, "exp"), expand(chain(stop(c), "neg"), *x.shape))
    )
    segmented = cut_of(program, x, y, few)
    assert not any(ways(segmented))


def test_columns_are_summed_in_no_order_that_counts() -> None:
    x = torch.empty(HALF // 8, 8)
    (a,) = like(x)
    below = call("sub", a, expand(reshape(total(a, 0), 1, 8), *x.shape))
    assert ways(cut_of(fusion([a], below), x)) == [False, False]


def test_small_launches_between_change_nothing() -> None:
    x = torch.empty(HALF // 64, 64)
    (a,) = like(x)
    first = stop(chain(a, "neg"))
    little = stop(chain(stop(piece(first, 0, 0, 1)), "abs"))
    last = call("sub", first, expand(little, *x.shape))
    segmented = cut_of(fusion([a], last), x)
    sizes = [sum(s.layouts[store.target].numel for store in s.stores) for s in segmented.segments]
    assert sizes == [HALF, 64, HALF]
    assert ways(segmented) == [False, False, True]


def test_statistics_and_what_is_normalised_by_them_turn() -> None:
    x = torch.empty(130, 64, 112, 112, dtype=torch.bfloat16)
    (a,) = like(x)
    wide = call("cast", a, dtype=DataType.Float)
    sums = expand(reshape(total(wide, 0, 2, 3), 1, 64, 1, 1), *x.shape)
    made = call("cast", call("sub", wide, sums), dtype=DataType.BFloat16)
    segmented = cut_of(fusion([a], made), x)
    first, second = segmented.segments
    assert any(map(is_long, first.tensors))
    assert (first.is_reversed, second.is_reversed) == (False, True)
