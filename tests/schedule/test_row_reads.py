"""What walks along a row read: the row itself, weights of all rows, what each row has one of."""

from __future__ import annotations

from tests.programs import H200, chain, expand, total, unsqueeze
from tests.schedule.segments import floats, halves, segment_of
from tests.schedule.test_rows import along, centred
from tests.schedule.test_streams import softmax
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import rows
from thunder_fuser.schedule.residency import Row
from thunder_fuser.schedule.row_reads import reads_of


def row_of(inputs: list[TensorView], *outputs: TensorView) -> Row:
    return rows.schedule(segment_of(inputs, *outputs), H200).row


def test_a_vector_fills_as_many_registers_as_it_has_words() -> None:
    x, y = halves(8, 4096), floats(8, 4096)
    row = row_of([x, y], call("mul", centred(x), y))
    assert row.lanes == 4
    assert row.loads == {x: 2, y: 4}
    assert row.loaded == 6


def test_what_a_second_walk_needs_is_read_again() -> None:
    x, y = floats(8, 4096), floats(8, 4096)
    row = row_of([x, y], call("mul", centred(x), y))
    assert (row.walks, row.again) == (2, {x})


def test_a_sum_that_is_only_stored_is_one_walk() -> None:
    x = floats(8, 4096)
    row = row_of([x], total(x, 1))
    assert (row.walks, row.again, row.count) == (1, frozenset(), 8)


def test_what_three_walks_compute_alike_is_left_if_it_is_no_fast_function() -> None:
    x, y = halves(8, 4096), floats(8, 4096)
    capped, given = chain(x, "tanh", "neg"), chain(y, "tanh")
    assert row_of([x], softmax(capped)).left == 8
    assert row_of([x], total(call("mul", capped, capped), 1), capped).left == 0  # two walks
    assert row_of([y], softmax(chain(y, "neg"))).left == 0
    assert row_of([y], call("sub", softmax(given), given)).left == 4


def test_what_each_turn_has_one_of_is_waited_for() -> None:
    x, means = floats(8, 64, 4096), floats(8, 64)
    centred = call("sub", x, expand(unsqueeze(means, 2), 8, 64, 4096))
    row = row_of([x, means], total(chain(centred, "exp"), 2), total(x, 1))
    assert row.loads.keys() == {x}
    assert row.waited == {means: 4}


def test_what_only_sums_down_the_columns_need_comes_with_the_row() -> None:
    """The branch whose gate's gradient is summed: a turn that waited for it was half as fast."""
    x, branch = floats(8, 64, 4096), floats(8, 64, 4096)
    gate = total(call("mul", x, branch), 1)
    centred = call("sub", x, expand(unsqueeze(total(x, 2), 2), 8, 64, 4096))
    row = row_of([x, branch], gate, centred)
    assert row.loads.keys() == {x, branch}
    assert row.again == {x}


def test_what_all_rows_of_a_block_share_are_weights() -> None:
    """The scale of a sample, which a block has that walks its tokens."""
    x, scale = floats(8, 64, 4096), floats(8, 4096)
    scaled = call("mul", x, expand(unsqueeze(scale, 1), 8, 64, 4096))
    row = row_of([x, scale], total(chain(scaled, "exp"), 1), total(scaled, 2))
    assert row.loads == {x: 4}
    assert row.weights == 4
    alone = row_of([x, scale], total(chain(scaled, "exp"), 2), total(scaled, 2))
    assert alone.weights == 0  # a block may have any row


def test_reads_are_of_memory_and_not_of_what_rows_are_reduced_to() -> None:
    x, means = floats(8, 4096), floats(8)
    made = call("sub", centred(x), along(means, 4096))
    planned = rows.schedule(segment_of([x, means], made), H200)
    found = reads_of(planned, planned.whole)
    assert dict(found).keys() == {x, means}
    assert dict(found)[means] == planned.axes.row
