"""What the map template refuses, and what the model chooses for a machine."""

from __future__ import annotations

import pytest

from tests.programs import H200, cat, chain, flip, pad, permute, piece, total
from tests.schedule.segments import floats, segment_of
from thunder_fuser.analysis.reductions import MAX_SHORT_REDUCTION
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import MapParameters, map_parameters
from thunder_fuser.target import HOST

P = MapParameters()


@pytest.mark.parametrize("extra", [0, 1])
def test_a_reduction_is_the_map_templates_while_a_thread_sums_it_in_registers(extra: int) -> None:
    for dim in (0, 1):
        x = floats(*(MAX_SHORT_REDUCTION + extra if d == dim else 8 for d in range(2)))
        reason = map.reject(segment_of([x], total(x, dim)), P)
        assert (reason is None) == (extra == 0)


def test_short_axes_that_are_reduced_together_count_together() -> None:
    x = floats(6, 6, 8)
    assert map.reject(segment_of([x], total(x, 0)), P) is None
    assert map.reject(segment_of([x], total(x, 0, 1)), P) is not None


def test_a_long_reduction_behind_a_leaf_does_not_matter() -> None:
    x = floats(1000, 8)
    summed = total(x, 0)
    assert map.reject(segment_of([summed], chain(summed, "neg")), P) is None


HAZARD = "an in-place target is read by others than the thread that writes it"


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (lambda x: chain(x, "neg"), None),
        (lambda x: flip(x, 0), HAZARD),
        (lambda x: permute(x, 1, 0), HAZARD),
        (lambda x: pad(piece(x, 1, 1, 8), [0, 1]), HAZARD),  # shifted to the left by one
        (lambda x: call("add", x, permute(x, 1, 0)), HAZARD),  # its own element and another
    ],
    ids=["own", "flipped", "transposed", "shifted", "both"],
)
def test_an_in_place_target_is_read_where_it_is_written(value: object, reason: str | None) -> None:
    assert callable(value)
    x = floats(8, 8)
    written = value(x)
    assert isinstance(written, TensorView)
    assert map.reject(segment_of([x], writes=[(written, x)]), P) == reason


def test_a_target_that_another_store_reads_elsewhere_is_refused() -> None:
    x = floats(8, 8)
    segment = segment_of([x], chain(flip(x, 0), "exp"), writes=[(chain(x, "neg"), x)])
    assert map.reject(segment, P) == HAZARD


def test_a_target_that_is_only_written_may_be_written_from_anywhere() -> None:
    x, y = floats(8, 8), floats(8, 8)
    assert map.reject(segment_of([x, y], writes=[(permute(y, 1, 0), x)]), P) is None


def test_two_targets_read_by_both_are_safe_in_one_thread_only() -> None:
    x, y = floats(40), floats(40)
    joined = [(call("add", x, y), x), (call("sub", x, y), y)]
    assert map.reject(segment_of([x, y], writes=joined), P) is None
    apart = [(chain(y, "neg"), x), (chain(x, "neg"), y)]  # nothing read in common: two classes
    assert map.reject(segment_of([x, y], writes=apart), P) == HAZARD


def test_a_long_reduction_without_results_is_nothing_to_reduce() -> None:
    """Planes of no columns have no shape; a random program met one."""
    x = floats(0, 100, 0)
    segment = segment_of([x], total(x, 1))
    assert map.reject(segment, P) is None
    assert map.schedule(segment, P).classes == ()


def test_a_machine_is_busy_with_512_threads_of_8_values_on_each_multiprocessor() -> None:
    assert map_parameters(H200)[0].busy == 132 * 512 * 8
    assert map_parameters(HOST)[0].busy == 512 * 8


def test_what_fits_the_cache_is_not_streamed() -> None:
    assert map_parameters(H200)[0].streamed == 60 << 20


def test_a_small_problem_gets_threads_and_a_large_one_shares_loads() -> None:
    """q and k of RoPE in one class only where there are elements enough for every thread."""
    found = []
    for batch in (16, 2048):
        x = floats(batch, 5, 128)
        q, k = piece(x, 1, 0, 4), piece(x, 1, 4, 5)
        segment = segment_of([x], chain(q, "neg"), chain(k, "exp"))
        few = MapParameters(busy=512 * 128)
        found.append(len(map.schedule(segment, few).classes))
    assert found == [2, 1]


def test_nothing_is_scheduled_for_an_empty_store_beside_a_full_one() -> None:
    x, y = floats(0, 8), floats(4, 8)
    schedule = map.schedule(segment_of([x, y], chain(x, "neg"), chain(y, "neg")), P)
    assert [c.threads * c.lanes for c in schedule.classes] == [32]


def test_an_empty_piece_of_a_cat_has_no_class_of_its_own() -> None:
    x, y = floats(4, 0), floats(4, 8)
    schedule = map.schedule(segment_of([x, y], cat(x, y)), P)
    assert [c.threads * c.lanes for c in schedule.classes] == [32]
