"""Of which terms below maxima a sum follows from those of pieces."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.presegment.test_one_pass_exponentials import guarded, top
from tests.programs import expand, unsqueeze
from tests.schedule.segments import floats
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import topological
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.presegment.below_maxima import below_maxima

X, Y = floats(8, 90), floats(8, 90)
OF_X, OF_Y = top(X, 1), top(Y, 1)


def away(x: TensorView, most: TensorView) -> TensorView:
    return call("sub", x, expand(unsqueeze(most, 1), 8, 90))


FROM_X, FROM_Y = away(X, OF_X), away(Y, OF_Y)
RAISED = call("exp", FROM_X)
SEEN = call("where", call("eq", RAISED, sc.constant(0.0)), sc.constant(0.0), FROM_X)


def mul(*factors: TensorView) -> TensorView:
    first, *others = factors
    for other in others:
        first = call("mul", first, other)
    return first


def late(terms: TensorView) -> set[TensorView]:
    """What depends on the maxima, and these."""
    found = {OF_X, OF_Y}
    for tv in topological([terms]):
        if not found.isdisjoint(tv.producers) or tv.is_of("max"):
            found.add(tv)
    return found


@pytest.mark.parametrize(
    ("terms", "steps", "weights"),
    [
        (RAISED, {}, 0),
        (mul(FROM_X, RAISED), {OF_X: 1}, 0),
        (mul(RAISED, SEEN), {OF_X: 1}, 0),
        (mul(RAISED, call("sub", SEEN, FROM_Y)), {OF_X: 1, OF_Y: -1}, 0),
        (mul(RAISED, call("sub", Y, FROM_X), call("sin", X)), {OF_X: -1}, 1),
        (mul(RAISED, Y), {}, 1),
    ],
)
def test_sums_of_distances_weigh_exponentials(
    terms: TensorView, steps: dict[TensorView, int], weights: int
) -> None:
    found = below_maxima(terms, [OF_X, OF_Y], late(terms))
    assert found is not None
    assert (found.top, found.steps, len(found.weights)) == (OF_X, steps, weights)


def test_weights_of_a_distance_need_no_exponential() -> None:
    terms = call("neg", mul(FROM_X, Y))
    found = below_maxima(terms, [OF_X], late(terms))
    assert found is not None
    assert (found.top, found.raised, found.weights, found.others) == (OF_X, None, (Y,), FROM_X)
    assert found.is_negative


def test_a_negated_product_is_known() -> None:
    terms = call("neg", mul(RAISED, Y))
    found = below_maxima(terms, [OF_X], late(terms))
    assert found is not None
    assert found.is_negative


@pytest.mark.parametrize(
    "make",
    [
        lambda: FROM_X,
        lambda: mul(Y, SEEN),
        lambda: mul(Y, call("sub", FROM_X, FROM_Y)),
        lambda: mul(RAISED, RAISED),
        lambda: mul(RAISED, FROM_X, FROM_Y),
        lambda: mul(RAISED, call("sin", FROM_X)),
        lambda: mul(RAISED, expand(unsqueeze(OF_X, 1), 8, 90)),
        lambda: mul(call("exp", away(X, guarded(X, 1))), FROM_X),
        lambda: call("exp", away(X, call("flip", OF_X, dims=(0,)))),
    ],
)
def test_other_terms_are_not(make: Callable[[], TensorView]) -> None:
    terms = make()
    assert below_maxima(terms, [OF_X, OF_Y], late(terms)) is None


def test_other_maxima_are_not() -> None:
    assert below_maxima(mul(RAISED, FROM_Y), [OF_X], late(mul(RAISED, FROM_Y))) is None
