"""Pick schedules: which segments they hold, and what a block has."""

from __future__ import annotations

from textwrap import dedent

import pytest

from tests.programs import H200, chain, ints, permute, reshape, total
from tests.schedule.segments import halves, integers, segment_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import picks
from thunder_fuser.schedule.parameters import PickParameters
from thunder_fuser.schedule.picks import MOST_EACH, PickSchedule

x, other, index = halves(40, 60), halves(40, 96), integers(40, 60)


def picked(a: TensorView, i: TensorView, count: int, dim: int = 1) -> TensorView:
    return call("pick_sum", a, i, dim=dim, count=ints([count]))


def planned(rows: int, places: int, columns: int, threads: int | None = None) -> PickSchedule:
    a, i = halves(rows, places), integers(rows, places)
    segment = segment_of([a, i], picked(a, i, columns))
    return picks.schedule(segment, H200, PickParameters(threads))


def test_it_prints_what_it_sums() -> None:
    assert str(planned(8192, 4096, 4096)) == dedent("""\
        picks over row{8192}, vector{512}, lane{8}, to columns vector{512}, lane{8}
          1 rows a block of 512 threads, slots of columns
          reduce T2[row, 8*vector + lane] of T0[row, 8*vector + lane], where T1 says
          store T2[row, 8*vector + lane], streaming""")


@pytest.mark.parametrize(
    ("rows", "places", "columns", "of_block", "threads"),
    [
        (65536, 256, 256, 8, 256),
        (2000, 256, 256, 3, 96),
        (65536, 577, 33, 3, 224),
        (100, 16384, 16384, 1, 1024),
        (100, 16, 32000, 1, 1024),
    ],
)
def test_short_rows_share_a_block_if_all_multiprocessors_have_some(
    rows: int, places: int, columns: int, of_block: int, threads: int
) -> None:
    found = planned(rows, places, columns)
    assert (found.rows, found.threads) == (of_block, threads)


@pytest.mark.parametrize("threads", [128, 256, 1024])
def test_a_thread_has_registers_for_its_elements(threads: int) -> None:
    found = planned(100, 16383, 100, threads)
    assert found.turns * found.axes.places.lanes <= MOST_EACH


def test_odd_rows_and_elements_that_lie_anywhere_are_read_one_by_one() -> None:
    assert planned(40, 61, 8).axes.places.lanes == 1
    lies = {x: Layout((40, 60), (60, 1), 2)}
    segment = segment_of([x, index], picked(x, index, 96), lies=lies)
    assert picks.schedule(segment, H200).axes.places.lanes == 1
    assert picks.schedule(segment, H200).axes.lanes == 8


@pytest.mark.parametrize(
    ("stores", "reason"),
    [
        ((), "not a sum of elements that have an index each"),
        ((total(x, 1),), "not a sum of elements that have an index each"),
        ((picked(x, index, 96), picked(x, index, 97)), "or others beside it"),
        ((picked(x, index, 96, dim=0),), "along another dim than the innermost"),
        ((picked(x, index, 96), chain(x, "neg")), "a result of shape [40, 60] beside sums"),
        ((permute(picked(x, index, 40), 1, 0),), "at another place than it belongs to"),
        ((picked(call("cast", x, dtype=DataType.Double), index, 9),), "sums of f64"),
    ],
)
def test_what_it_does_not_hold_has_a_reason(stores: tuple[TensorView, ...], reason: str) -> None:
    assert reason in str(picks.reject(segment_of([x, index], *stores), H200))


def test_what_follows_and_what_comes_before_are_held() -> None:
    terms = chain(x, "exp")
    made = call("add", other, picked(terms, chain(index, "neg"), 96))
    segment = segment_of([x, other, index], reshape(made, 20, 192), chain(other, "neg"))
    assert picks.reject(segment, H200) is None


def test_dims_of_one_element_may_lie_behind() -> None:
    a, i = tensor(DataType.Float, 3, 60, 1), integers(3, 60, 1)
    assert picks.reject(segment_of([a, i], picked(a, i, 9)), H200) is None


@pytest.mark.parametrize(
    ("places", "columns", "has_slots"),
    [
        (4096, 4096, True),
        (256, 256, True),
        (1000, 4097, True),
        (4096, 1024, False),  # each column has four elements
        (512, 32000, False),  # no room
    ],
)
def test_columns_of_about_one_element_have_slots(
    places: int, columns: int, has_slots: bool
) -> None:
    assert planned(8192, places, columns).has_slots == has_slots
