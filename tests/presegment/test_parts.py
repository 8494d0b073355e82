"""Reductions of parts, whose results are those of all terms at once."""

from __future__ import annotations

from textwrap import dedent

import pytest
import torch

from tests.programs import fusion, like, piece, total
from tests.schedule.segments import floats
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.ops.reductions import EQUALS, EXPONENTIALS, SQUARED_DEVIATION
from thunder_fuser.presegment.parts import Parts, has_parts
from thunder_fuser.runtime.evaluate import evaluate

TERMS, PARTS, COLUMNS = 40, 8, 3
STATEFUL = {row.name: row for row in (SQUARED_DEVIATION, EXPONENTIALS, *EQUALS)}


def deviation(x: TensorView, *dims: int) -> TensorView:
    made = apply(SQUARED_DEVIATION, [x], {"dims": dims})
    assert isinstance(made, TensorView)
    return made


def in_parts(tv: TensorView, x: TensorView) -> TensorView:
    """`tv`, which reduces the rows of `x`, of the parts that each a row in so many makes up."""
    rows = TERMS * PARTS
    left = piece(x, 0, rows, x.shape[0]) if rows < x.shape[0] else None
    whole = piece(x, 0, 0, rows) if rows < x.shape[0] else x
    return Parts({}, {}).whole(tv, whole, TERMS, (PARTS, COLUMNS), 0, left)


def test_squared_deviations_are_those_of_parts_and_of_their_means() -> None:
    x = floats(TERMS * PARTS, COLUMNS)
    assert str(Fusion((x,), (in_parts(deviation(x, 0), x),))) == dedent("""\
        fusion(T0: f32[i320, i3]) {
          T1: f32[i40, i24] = reshape(T0, new_shape=[40, 24])
          T2: f32[r40, i24] = squared_deviation(T1, dims=[0])
          T3: f32[i8, i3] = reshape(T2, new_shape=[8, 3])
          T4: f32[r8, i3] = sum(T3, dims=[0])
          T5: f32[r40, i24] = sum(T1, dims=[0])
          T6: f32[i8, i3] = reshape(T5, new_shape=[8, 3])
          T7: f32[i8, i3] = truediv(T6, 40.0)
          T8: f32[r8, i3] = sum(T7, dims=[0])
          T9: f32[i3] = truediv(T8, 8.0)
          T10: f32[b8, i3] = broadcast_in_dim(T9, shape=[8, 3], broadcast_dims=[1])
          T11: f32[i8, i3] = sub(T7, T10)
          T12: f32[i8, i3] = mul(T11, T11)
          T13: f32[r8, i3] = sum(T12, dims=[0])
          T14: f32[i3] = mul(T13, 40.0)
          T15: f32[i3] = add(T4, T14)
          return T15
        }""")


def test_what_was_made_of_a_plane_is_made_once() -> None:
    x, parts = floats(TERMS * PARTS, COLUMNS), Parts({}, {})
    both = [parts.whole(tv, x, TERMS, (PARTS, COLUMNS), 0) for tv in (total(x, 0), deviation(x, 0))]
    made = Fusion((x,), tuple(both))
    assert [tv.shape for tv in made.tensors].count((PARTS * COLUMNS,)) == 2


@pytest.mark.parametrize("rows", [TERMS * PARTS, TERMS * PARTS + 1, TERMS * PARTS + 7])
@pytest.mark.parametrize("name", ["sum", "prod", "max", "min", *STATEFUL])
@pytest.mark.parametrize("mean", [0.0, 1e3])
def test_results_stay_what_they_are(name: str, mean: float, rows: int) -> None:
    """Squared deviations about a large mean too, of which those of the parts have few digits."""
    x = torch.randn(rows, COLUMNS) + (mean if name == "squared_deviation" else 0.0)
    x = x.round() if name in ("maxima", "minima") else x  # many are equal
    (a,) = like(x)
    tv = apply(STATEFUL[name], [a], {"dims": (0,)}) if name in STATEFUL else None
    tv = tv or call(name, a, dims=(0,))
    assert isinstance(tv, TensorView)
    (got,) = evaluate(fusion([a], in_parts(tv, a)), [x])
    (want,) = evaluate(fusion([a], tv), [x.double()])
    assert got.shape == want.shape
    torch.testing.assert_close(got.double(), want.double(), rtol=5e-5, atol=1e-4)


def test_which_reductions_have_parts() -> None:
    x = floats(64, COLUMNS)
    assert all(map(has_parts, (total(x, 0), call("max", x, dims=(0,)), deviation(x, 0))))
