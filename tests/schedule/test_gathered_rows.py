"""Which rows, gathered or in another order, are walked in the vectors that are aligned where they
are stored."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import chain, check, flip, fusion, like, pad, permute, unsqueeze
from tests.schedule.segments import floats, halves, integers, segment_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.schedule import map
from thunder_fuser.schedule.parameters import MapParameters
from thunder_fuser.segment.segment import Segment


def rows(x: TensorView, index: TensorView, dim: int = 0) -> TensorView:
    return call("index_select", x, index, dim=dim)


def is_shifted(segment: Segment, parameters: MapParameters | None = None) -> bool:
    classes = map.schedule(segment, parameters or MapParameters()).classes
    return any(c.row is not None for c in classes)


def test_a_thread_has_an_aligned_vector_of_a_row() -> None:
    x, index = halves(900, 577), integers(4000)
    assert str(map.schedule(segment_of([x, index], rows(x, index)), MapParameters())) == dedent("""\
        map, blocks of 128
          class over i0{4000}, i1{73} and lane{8}
            T2[i0, -577*i0 + 8*((577*i0)/8) + 8*i1 + lane]""")


@pytest.mark.parametrize(
    ("columns", "shifted"),
    [
        (577, True),
        (66, True),  # the vector between two is stored in four parts, each has four sectors
        (62, False),
        (129, True),  # in eight
        (127, False),
        (132, False),  # stores of 8 bytes are wide enough
        (136, False),
    ],
)
def test_rows_are_shifted_that_are_long_and_align_nothing(columns: int, shifted: bool) -> None:
    x, index = halves(900, columns), integers(4000)
    assert is_shifted(segment_of([x, index], rows(x, index))) is shifted


def test_what_the_rows_have_one_of_and_what_lies_along_them_may_be_beside() -> None:
    x, index, scale, bias = halves(900, 577), integers(4000), floats(4000), floats(577)
    made = call("add", call("mul", rows(x, index), unsqueeze(scale, 1)), bias)
    assert is_shifted(segment_of([x, index, scale, bias], made))


@pytest.mark.parametrize("case", ["plain", "flip", "turn", "pad", "columns", "apart", "crooked"])
def test_rows_are_not_shifted_where_something_does_not_lie_along_them(case: str) -> None:
    x, index, place, target = halves(577, 577), integers(4000), integers(577), halves(4000, 577)
    read = {
        "plain": lambda: chain(target, "neg"),
        "flip": lambda: flip(rows(x, index), 1),
        "turn": lambda: rows(permute(x, 1, 0), index),
        "pad": lambda: pad(rows(x, index), [1, 0, 0, 0]),
        "columns": lambda: rows(rows(x, index), place, 1),
        "apart": lambda: rows(x, index),
        "crooked": lambda: rows(x, index),
    }
    lies = {
        "apart": Layout(target.shape, (600, 1), 16),
        "crooked": Layout(target.shape, (577, 1), 2),
    }
    given, made = [x, index, place, target], read[case]()
    if case in lies:
        segment = segment_of(given, lies={target: lies[case]}, writes=[(made, target)])
    else:
        segment = segment_of(given, made)
    assert not is_shifted(segment)


def test_a_text_for_many_lengths_has_rows_as_they_are() -> None:
    x, index = halves(900, 577), integers(4000)
    segment = segment_of([x, index], rows(x, index))
    assert not is_shifted(segment, MapParameters(rests=True))


def heads(x: TensorView) -> TensorView:
    return permute(x, 0, 2, 1, 3)


def test_rows_that_change_places_are_shifted_in_all_that_is_stored() -> None:
    x = halves(2, 5, 3, 131)
    made = chain(heads(x), "exp")
    segment = segment_of([x], call("lt", heads(x), made), made)
    assert is_shifted(segment, MapParameters())
    assert not is_shifted(segment, MapParameters(busy=1 << 40))  # too few to fill a machine
    even, flat = halves(2, 5, 3, 72), halves(2, 5, 3, 131)
    for y in (chain(heads(even), "neg"), chain(flat, "neg")):
        assert not is_shifted(segment_of([even, flat], y), MapParameters())


@pytest.mark.sanitizer
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=str)
@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_values_of_rows_that_change_places(dtype: torch.dtype) -> None:
    """As a mask beside what it is of, and a plane that lies like what is stored."""
    x, y = torch.randn(7, 5, 3, 131).to(dtype), torch.randn(7, 3, 5, 131).to(dtype)
    a, b = like(x, y)
    made = call("add", heads(a), b)
    plan = check(fusion([a, b], made, call("lt", made, b)), x, y)
    assert "tf::load_row<" in plan.sources[0]


@pytest.mark.sanitizer
@pytest.mark.usefixtures("device", "one_multiprocessor")
def test_indices_beside_a_row_are_not_checked() -> None:
    """What lanes beside it have is no index."""
    x, places = torch.randn(7, 5, 3, 131), torch.randint(3, (7, 3, 5, 131))
    a, b = like(x, places)
    checked = call("cast", call("in_range", b, sc.constant(3)), dtype=a.dtype)
    made = call("add", heads(a), checked)
    plan = check(fusion([a, b], made, call("lt", made, checked)), x, places)
    assert "tf::load_row<" in plan.sources[0]
