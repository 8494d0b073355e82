"""Which short odd rows of which nothing is reduced pass through shared memory, and how."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.programs import SMALL, chain, expand, total, unsqueeze
from tests.schedule.segments import floats, halves, integers, segment_of
from thunder_fuser.analysis.layout import Layout
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.row_ir import RowKernel
from thunder_fuser.kernel.templates import draft, general
from thunder_fuser.schedule.plain_rows import reject_plain, schedule_plain
from thunder_fuser.segment.segment import Segment


def scaled(x: TensorView, *rows: TensorView) -> TensorView:
    """x by what each row has one of."""
    for row in rows:
        x = call("mul", x, expand(unsqueeze(row, row.ndim), *x.shape))
    return x


def summed_up(x: TensorView) -> TensorView:
    return chain(call("cumsum", x, dim=0, reverse=False), "neg")


def of_rows(x: TensorView) -> Segment:
    row, other = floats(*x.shape[:-1]), floats(*x.shape[:-1])
    return segment_of([x, row, other], call("cast", scaled(x, row, other), dtype=x.dtype))


def test_a_turn_is_a_stretch_of_rows_and_of_what_they_have_one_of() -> None:
    found = schedule_plain(of_rows(halves(100_003, 34)), SMALL)
    first, second, *_ = str(found).splitlines()
    assert first == (
        "rows over group{40}, turn{20}, side{128}, vector{17}, lane{2}, "
        "T0 in registers and T1, T5 gathered and through shared memory, 3 turns at a time"
    )
    assert second.startswith("  2 threads a row, 128 rows a block, 5 of them on a multiprocessor")
    assert len(found.residency.gathered) == 2


@pytest.mark.parametrize(("columns", "threads"), [(9, 1), (63, 4), (257, 16), (577, 32), (769, 32)])
def test_long_rows_have_more_threads_which_keep_nothing(columns: int, threads: int) -> None:
    assert schedule_plain(of_rows(halves(100_003, columns)), SMALL).residency.threads == threads


def test_rows_that_are_only_stored_have_fewer_threads() -> None:
    """As in the gradient of their largest elements."""
    row, other = halves(100_003), halves(100_003)
    wide = [expand(unsqueeze(tv, 1), 100_003, 63) for tv in (row, other)]
    found = schedule_plain(segment_of([row, other], call("mul", *wide)), SMALL)
    assert found.residency.threads == 2
    assert found.residency.gathered == {row, other}
    assert not found.residency.registers


@pytest.mark.parametrize("shape", [(100_003, 35), (1003, 99, 7, 5)])
def test_the_model_prefers_them_to_vectors_of_a_plane(shape: tuple[int, ...]) -> None:
    """What rows have one of says which dims they are."""
    row = halves(*shape[:2] if len(shape) > 2 else shape[:1])
    wide = row
    while wide.ndim < len(shape):
        wide = unsqueeze(wide, wide.ndim)
    segment = segment_of([row], call("neg", expand(wide, *shape)))
    assert isinstance(draft(segment, SMALL, strict=False).lower(False), RowKernel)


def test_planes_that_end_inside_a_vector_and_others_have_one_general_text() -> None:
    found = [draft(of_rows(halves(rows, 34)), SMALL, strict=False) for rows in (99_996, 99_999)]
    texts = [emit(general(one, SMALL).lower(False)).fragments for one in found]
    assert texts[0] == texts[1]
    assert emit(found[0].lower(False)).fragments != texts[0]


def test_rows_that_would_gain_nothing_are_left_to_others() -> None:
    x, row, other = halves(100_003, 63), halves(100_003), halves(100_003)
    both, given = scaled(x, row, other), [x, row, other]
    others = {
        "whole vectors": of_rows(halves(100_003, 64)),
        "nothing of a row's own": segment_of([x], chain(x, "neg")),
        "as much as there is of vectors": segment_of([x, row], scaled(x, row)),
        "few": of_rows(halves(301, 63)),
        "long": of_rows(halves(3001, 4097)),
        "words": of_rows(floats(100_003, 63)),
        "reduced": segment_of(given, total(both, 1)),
        "summed up": segment_of(given, summed_up(both)),
        "of another shape": segment_of(given, both, chain(row, "neg")),
        "apart in memory": segment_of(given, both, lies={x: Layout(x.shape, (64, 1))}),
    }
    assert not [name for name, segment in others.items() if not reject_plain(segment, SMALL)]
    assert reject_plain(of_rows(x), SMALL) is None
    assert reject_plain(of_rows(x), replace(SMALL, max_cluster=1))


def test_rows_at_loaded_places_are_not_walked() -> None:
    """A turn would wait for the index, and for what lies there."""
    x, at, row, other = halves(100_003, 63), integers(100_003), halves(100_003), halves(100_003)
    taken = scaled(call("index_select", x, at, dim=0), row, other)
    assert reject_plain(segment_of([x, at, row, other], taken), SMALL)
