"""What is tried where no template holds a segment."""

from __future__ import annotations

import pytest
import torch

from tests.programs import (
    chain,
    check,
    expand,
    fusion,
    like,
    reshape,
    total,
    unsqueeze,
)
from tests.segment.edges import edges
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.segment.segment import Segment, Store
from thunder_fuser.segment.waits import waits_of

pytestmark = [pytest.mark.usefixtures("device"), pytest.mark.sanitizer]


def centred_columns(x: torch.Tensor) -> Fusion:
    """Sums down the columns at two levels, and a plane that needs both."""
    (a,) = like(x)
    first = chain(total(a, 0), "neg")
    centred = call("add", a, expand(unsqueeze(first, 0), *a.shape))
    second = chain(total(call("mul", centred, centred), 0), "neg")
    return fusion([a], call("mul", centred, expand(unsqueeze(second, 0), *a.shape)))


def test_columns_that_a_block_keeps_are_read_once() -> None:
    x = torch.randn(64, 48).round()
    assert check(centred_columns(x), x).launches == 1


def test_only_column_sums_travel_to_what_reads_them_row_by_row() -> None:
    """Of columns that no block keeps."""
    x = (torch.randint(999, (20000, 48)) == 0).double()
    plan = check(centred_columns(x), x)
    assert edges(plan) == ["f64[48]", "f64[48]"]
    assert [s.is_opaque for s in plan.segmented.segments] == [False] * 3


def test_rows_of_column_sums_have_a_launch_of_their_own() -> None:
    """Beside a plane with other rows no template holds them."""
    x = (torch.randint(999, (2, 20000, 48)) == 0).double()
    (a,) = like(x)
    columns = total(a, 1)
    shares = call("div", columns, expand(unsqueeze(total(columns, 1), 1), 2, 48))
    plan = check(fusion([a], call("mul", a, expand(unsqueeze(shares, 1), 2, 20000, 48))), x)
    assert edges(plan) == ["f64[2, 48]", "f64[2]"]
    assert [s.is_opaque for s in plan.segmented.segments] == [False] * 3


def test_what_no_template_holds_is_tried_less_freely_each_time() -> None:
    """Columns are kept no more, then rows have a launch of their own, and then torch's."""
    (a,) = like(torch.empty(64, 128))
    by, down = total(a, 1), total(a, 0)
    away = call("sub", a, expand(reshape(by, 64, 1), 64, 128))
    program = fusion([a], away, down)
    stores = tuple(Store(tv, tv) for tv in program.outputs)
    refused = [Segment(stores, frozenset({a}), {})]
    first = waits_of(program, lambda tv: False)
    assert (first.kept, first.apart, first.opaque) == ({down}, frozenset(), frozenset())
    second = first.after(refused)
    assert second is not None
    assert second.kept == frozenset()
    third = second.after(refused)
    assert third is not None
    assert third.apart == {by, down}
    fourth = third.after(refused)
    assert fourth is not None
    assert fourth.opaque == {by, down}
    assert fourth.after([]) is None
