"""In which form sums over all columns see the planes whose rows are combined."""

from __future__ import annotations

from tests.programs import chain, permute, total
from tests.schedule.segments import floats
from thunder_fuser.presegment.plane_forms import (
    form_of,
    forms_of,
    is_of_rows,
    reduced_dim,
    samples_of,
)

PLANE = (30, 512, 40)  # rows are dim 1


def test_a_sum_of_rows_has_one_dim_of_the_plane() -> None:
    x = floats(*PLANE)
    rows, both = total(x, 1), total(x, 1, 2)
    assert (reduced_dim(rows), reduced_dim(both)) == (1, None)
    assert is_of_rows(rows, {PLANE: 1})
    assert not is_of_rows(rows, {PLANE: 2})
    assert not is_of_rows(rows, {(30, 512, 41): 1})


def test_a_sum_over_all_columns_keeps_the_rows_alone_or_with_samples() -> None:
    x = floats(*PLANE)
    assert form_of(total(x, 0, 2)) == (PLANE, 1)
    assert samples_of(total(x, 0, 2)) == 1
    assert form_of(total(x, 2)) == (PLANE, 1)  # of each sample
    assert samples_of(total(x, 2)) == 30
    assert form_of(total(x, 0)) == (PLANE, -1)  # samples are outermost
    assert form_of(total(x, 0, 1, 2)) == (PLANE, -1)


def test_a_permuted_plane_is_known_by_the_form_of_what_lies_in_memory() -> None:
    x = floats(30, 40, 512)
    turned = permute(x, 0, 2, 1)
    rows_last = permute(floats(512, 30, 40), 1, 2, 0)
    planes = {turned.shape: 1, rows_last.shape: 2}
    found = forms_of(planes, [turned, rows_last, chain(x, "neg")])
    assert found == {
        (turned.shape, 1): turned.shape,  # whose rows are not its last dim
        (rows_last.shape, 2): rows_last.shape,
        ((512, 30, 40), 0): rows_last.shape,
    }
