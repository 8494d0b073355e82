"""Which places of the largest shares are those of the largest elements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
import torch

from tests.presegment.test_one_pass_exponentials import below, guarded, softmax, top
from tests.programs import like, total
from tests.schedule.segments import floats
from thunder_fuser.dtypes import DataType
from thunder_fuser.frontend.extrema import EXTREMA
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.scalar import Scalar, is_constant
from thunder_fuser.ir.tensor import Attr, TensorView, Value
from thunder_fuser.ops import OpDef
from thunder_fuser.presegment.fold_places import fold_places
from thunder_fuser.presegment.stages import constants
from thunder_fuser.runtime.evaluate import evaluate

ARGMAX, _ = EXTREMA


class Rows:
    """What builds an operation: rows alone."""

    def apply(self, row: OpDef, inputs: Sequence[Value], attrs: Mapping[str, Attr]) -> Value:
        return produce(row, inputs, attrs)

    def draw(self, name: str) -> Scalar:
        raise AssertionError(name)

    def require_elements(self, extent: Scalar, what: str) -> None:
        assert not is_constant(extent, 0), what


def place(x: TensorView, dim: int = 1) -> TensorView:
    """As the frontend finds it."""
    (found,) = ARGMAX.build(Rows(), {"x": x, "dim": dim, "keepdim": False})
    assert isinstance(found, TensorView)
    return found


def test_the_largest_share_is_where_the_largest_element_is() -> None:
    x = floats(8, 90)
    made = fold_places(Fusion((x,), (place(softmax(x, 1)),)))
    assert [tv.expr.op.name for tv in made.tensors if tv.dtype.is_integral] == [
        *("iota", "broadcast", "where", "min", "cast")
    ]
    assert "sum(" not in str(made)


@pytest.mark.parametrize("dim", [0, 1])
def test_places_are_those_of_the_shares(dim: int) -> None:
    """The first of several that are equal, and of rows without numbers."""
    x = 30 * torch.randn(9, 40)
    x[2], x[3], x[4], x[5, 7] = -torch.inf, 2.0, torch.nan, torch.nan
    x[6, 3], x[7] = -torch.inf, torch.round(x[7] / 30)
    (a,) = like(x)
    written = Fusion((a,), (place(softmax(a, dim), dim), place(below(a, top(a, dim), dim), dim)))
    made = fold_places(written)
    assert "order_key" not in str(made)
    for found, expected in zip(evaluate(made, [x])[1], evaluate(written, [x])[1], strict=True):
        assert torch.equal(found, expected)


def test_others_stay() -> None:
    x, y = floats(8, 90), floats(8, 90)
    shares = softmax(x, 1)
    rounded = call("cast", call("cast", shares, dtype=DataType.Half), dtype=DataType.Float)
    rests = call("exp", call("sub", x, call("expand", guarded(x), shape=constants([8, 90]))))
    others = [place(x), place(rounded), place(call("mul", shares, y)), place(shares, 0)]
    others += [place(rests, 0), place(call("div", shares, y)), total(shares, 1)]
    for value in others:
        assert fold_places(Fusion((x, y), (value,))).outputs == (value,)
