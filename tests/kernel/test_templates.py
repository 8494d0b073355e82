"""Kernels for many sizes have one text in their general form."""

from __future__ import annotations

import pytest

from tests.programs import H200
from tests.schedule.segments import floats, halves, segment_of
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call
from thunder_fuser.kernel.source import Source
from thunder_fuser.kernel.templates import draft, general
from thunder_fuser.segment.segment import Segment
from thunder_fuser.target import HOST


def gated(rows: int, columns: int) -> Segment:
    a, b = halves(rows, columns), halves(rows, columns)
    return segment_of([a, b], call("mul", call("tanh", a), b))


def sources(rows: int, columns: int) -> tuple[Source, Source]:
    """As the model prefers it, and in general."""
    found = draft(gated(rows, columns), H200, strict=False)
    return emit(found.lower(False)), emit(general(found).lower(False))


ODD = [(7, 96), (7, 97), (7, 255), (8, 100), (33, 129), (1, 24), (4096, 14336)]


def test_vectors_with_and_without_a_rest_have_one_general_text() -> None:
    found = [sources(*shape) for shape in ODD]
    assert len({general.fragments for _, general in found}) == 1
    assert len({own.fragments for own, _ in found}) > 1


def test_the_text_that_the_model_prefers_has_no_rest_where_none_is_left() -> None:
    own, of_most = sources(8, 4096)
    assert "int turn" not in own.text
    assert "int turn" in of_most.text


@pytest.mark.parametrize("columns", [96, 97, 255])
def test_a_rest_is_some_elements_and_all_are_stored(columns: int) -> None:
    found = draft(gated(7, columns), HOST, strict=False)
    vectors, rest = general(found).schedule.classes
    assert vectors.lanes == 8
    assert rest.lanes == 1
    assert 2 <= rest.threads <= 9
    assert vectors.threads * 8 + rest.threads == 7 * columns


def test_what_is_written_in_place_has_one_kernel() -> None:
    a = floats(7, 96)
    segment = segment_of([a], writes=[(call("exp", a), a)])
    found = draft(segment, H200, strict=False)
    assert general(found) is found
