"""Which maxima are what the largest element comes to."""

from __future__ import annotations

import pytest
import torch

from tests.presegment.test_one_pass_exponentials import below, softmax, top
from tests.programs import expand, fusion, like, total, unsqueeze
from tests.schedule.segments import floats
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.fold_maxima import fold_maxima
from thunder_fuser.runtime.evaluate import evaluate


def largest(tv: TensorView, dim: int = 1) -> TensorView:
    return call("max", tv, dims=(dim,))


def test_the_largest_share_is_that_of_the_largest_element() -> None:
    x = floats(8, 90)
    made = str(fold_maxima(fusion([x], largest(softmax(x, 1)))))
    assert made.count(" max(") == 1
    assert "f32[i8] = div(" in made


@pytest.mark.parametrize("dim", [0, 1])
def test_values_are_those_of_the_largest_share(dim: int) -> None:
    """Also where a row has no maximum, or an infinite one."""
    x = 30 * torch.randn(9, 40)
    x[0, 0], x[1, 1], x[2], x[:, 7] = torch.nan, torch.inf, -torch.inf, -torch.inf
    (a,) = like(x)
    written = fusion([a], largest(softmax(a, dim), dim), largest(below(a, top(a, dim), dim), dim))
    made = fold_maxima(written)
    assert str(made) != str(written)
    for found, expected in zip(evaluate(made, [x]), evaluate(written, [x]), strict=True):
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_others_stay() -> None:
    x, y = floats(8, 90), floats(8, 90)
    terms, shares = below(x, top(x, 1), 1), softmax(x, 1)
    spread = expand(unsqueeze(total(y, 1), 1), 8, 90)  # may be below 0
    others = [largest(x), largest(terms, 0), largest(call("div", terms, spread)), largest(y)]
    others += [largest(call("div", terms, y)), largest(call("mul", shares, y))]
    others += [call("min", shares, dims=(1,)), largest(shares, 0)]
    for value in others:
        assert fold_maxima(Fusion((x, y), (value,))).outputs == (value,)


@pytest.mark.parametrize(("op", "is_left"), [("eq", True), ("lt", False)])
def test_what_is_looked_for_is_rounded_as_its_elements(op: str, is_left: bool) -> None:
    x = floats(8, 90)
    shares = softmax(x, 1)
    most = expand(unsqueeze(largest(shares), 1), 8, 90)
    most = most if op == "eq" else call("mul", most, sc.constant(0.1))
    made = fold_maxima(Fusion((x,), (call(op, shares, most),)))
    assert (str(made).count(" max(") == 2) == is_left
