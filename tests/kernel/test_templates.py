"""Kernels for many sizes have one text in their general form; variants are different kernels."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from tests.programs import H200, chain, expand, ints, permute, reshape, total, unsqueeze
from tests.schedule.segments import floats, halves, integers, segment_of
from tests.schedule.test_streams import softmax
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.source import Source
from thunder_fuser.kernel.templates import Draft, draft, general, variant, variants
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import HOST


def gated(rows: int, columns: int) -> Segment:
    a, b = halves(rows, columns), halves(rows, columns)
    return segment_of([a, b], call("mul", call("tanh", a), b))


def sources(rows: int, columns: int) -> tuple[Source, Source]:
    """As the model prefers it, and in general."""
    found = draft(gated(rows, columns), H200, strict=False)
    return emit(found.lower(False)), emit(general(found, H200).lower(False))


ODD = [(7, 96), (7, 97), (7, 255), (8, 100), (33, 129), (1, 24), (4096, 14336)]


def test_vectors_with_and_without_a_rest_have_one_general_text() -> None:
    found = [sources(*shape) for shape in ODD]
    assert len({general.fragments for _, general in found}) == 1
    assert len({own.fragments for own, _ in found}) > 1


@pytest.mark.parametrize("columns", [4097, 4099, 50257])
def test_planes_that_end_inside_a_vector_and_others_have_one_general_text(columns: int) -> None:
    def texts(rows: int) -> tuple[Source, Source]:
        x = halves(rows, columns)
        found = draft(segment_of([x], softmax(x)), H200, strict=False)
        return emit(found.lower(False)), emit(general(found, H200).lower(False))

    (even, even_in_general), (odd, odd_in_general) = texts(4096), texts(4095)
    assert (even.fragments == odd.fragments) == (columns < 5000)  # which have their edges apart
    assert odd.fragments == odd_in_general.fragments == even_in_general.fragments


def test_the_text_that_the_model_prefers_has_no_rest_where_none_is_left() -> None:
    own, of_most = sources(8, 4096)
    assert "int turn" not in own.text
    assert "int turn" in of_most.text


@pytest.mark.parametrize("columns", [96, 97, 255])
def test_a_rest_is_some_elements_and_all_are_stored(columns: int) -> None:
    found = draft(gated(7, columns), HOST, strict=False)
    vectors, rest = general(found, HOST).schedule.classes
    assert vectors.lanes == 8
    assert rest.lanes == 1
    assert 2 <= rest.threads <= 9
    assert vectors.threads * 8 + rest.threads == 7 * columns


@pytest.mark.parametrize("rows", [67, 131, 205, 353, 834])
@pytest.mark.parametrize("columns", [4096, 8192])
def test_columns_of_few_rows_have_the_general_text_of_many(rows: int, columns: int) -> None:
    def texts(rows: int) -> tuple[Source, Source]:
        found = draft(segment_of([x := halves(rows, columns)], total(x, 0)), H200, strict=False)
        return emit(found.lower(False)), emit(general(found, H200).lower(False))

    (own, few), (_, many) = texts(rows), texts(900)
    assert few.fragments == many.fragments
    # Of fewer a thread loads all at once, and blocks of less than a line have more of them.
    assert (own.text == few.text) == (rows > 200 and columns == 8192)


def spread(tv: TensorView, columns: int) -> TensorView:
    return expand(unsqueeze(tv, 1), tv.shape[0], columns)


def pointwise(rows: int, columns: int) -> Segment:
    return gated(rows, columns)


def turned(rows: int, columns: int) -> Segment:
    a, b = halves(rows, columns), halves(columns, rows)
    return segment_of([a, b], call("mul", permute(a, 1, 0), b))


def centred(rows: int, columns: int) -> Segment:
    a, b = floats(rows, columns), floats(rows, columns)
    mean = total(call("mul", a, b), 1)
    return segment_of([a, b], call("sub", b, spread(mean, columns)))


def summed_both_ways(rows: int, columns: int) -> Segment:
    """As the gradient of a norm, whose rows blocks walk."""
    a, b, weight = halves(rows, columns), halves(rows, columns), halves(columns)
    scaled = call("mul", b, expand(unsqueeze(weight, 0), rows, columns))
    mean = total(call("mul", a, scaled), 1)
    parts = reshape(call("mul", a, b), 64, rows // 64, columns)
    gradient = call("sub", scaled, call("mul", a, spread(mean, columns)))
    return segment_of([a, b, weight], gradient, total(parts, 1))


def denominator(rows: int, columns: int) -> Segment:
    a = halves(rows, columns)
    top = call("max", a, dims=(1,))
    return segment_of([a], total(chain(call("sub", a, spread(top, columns)), "exp"), 1))


def column_sums(rows: int, columns: int) -> Segment:
    a = halves(rows, columns)
    return segment_of([a], total(a, 0))


def grouped(rows: int, columns: int) -> Segment:
    a, order, ends = floats(rows, columns), integers(rows), integers(rows // 2)
    made = call("group_sum", a, order, ends, dim=0, skip=-1)
    return segment_of([a, order, ends], made)


def picked(rows: int, columns: int) -> Segment:
    a, index = halves(rows, columns), integers(rows, columns)
    count = min(columns, 4096)
    return segment_of([a, index], call("pick_sum", a, index, dim=1, count=ints([count])))


MAKERS = (pointwise, turned, centred, summed_both_ways, denominator, column_sums, grouped, picked)
CASES = [
    *((make, columns) for make in MAKERS for columns in (1000, 4096)),
    *((make, 40) for make in MAKERS if make is not summed_both_ways),  # two kernels have those
    *((make, 32768) for make in (centred, denominator)),
]


@pytest.mark.parametrize(("make", "columns"), CASES)
def test_schedules_that_print_alike_are_one_kernel(
    make: Callable[[int, int], Segment], columns: int
) -> None:
    """So a variant that prints like another is left out, and no other one."""
    segment = make(64 * random.randint(33, 60), columns)
    preferred = draft(segment, H200, strict=False)
    drafts = [preferred, *variants(segment, H200, preferred)]
    assert len({_work(one) for one in drafts}) == len(drafts)
    known = {_work(one) for one in drafts}
    for parameters in preferred.template.parameters(H200):
        found = variant(segment, H200, preferred, str(parameters))
        assert found is None or _work(found) in known, parameters


def _work(found: Draft) -> object:
    source = emit(found.lower(False))
    return source.text, source.blocks, source.threads, source.shared_bytes


def test_parameters_of_no_template_have_no_variant() -> None:
    preferred = draft(gated(7, 96), H200, strict=False)
    assert variant(gated(7, 96), H200, preferred, "MapParameters(threads=3)") is None


def test_what_is_written_in_place_has_one_kernel() -> None:
    a = floats(7, 96)
    segment = segment_of([a], writes=[(call("exp", a), a)])
    found = draft(segment, H200, strict=False)
    assert general(found, H200) is found
