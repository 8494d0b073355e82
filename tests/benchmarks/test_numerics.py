"""Errors are relative, by norms, and infinite where there is nothing to believe."""

from __future__ import annotations

import math

import pytest
import torch

from benchmarks.cases import BACKWARD, FORWARD, INFERENCE, STEP, Case
from benchmarks.numerics import Results, error, reference

ONES = torch.ones(3, 4)


@pytest.mark.parametrize(
    ("found", "expected", "result"),
    [
        ([ONES], [ONES.double()], 0.0),
        ([ONES * 1.5], [ONES.double()], 0.5),
        ([ONES, ONES * 1.5], [ONES, ONES * 2], 0.25),  # the worst of several
        ([ONES * 0.5], [ONES * 0], 0.5 * 12**0.5),  # absolute where nothing is expected
        ([ONES * math.nan], [ONES], math.inf),
        ([ONES.T], [ONES], math.inf),
        ([], [ONES], math.inf),
    ],
)
def test_the_error_of_results(
    found: list[torch.Tensor], expected: list[torch.Tensor], result: float
) -> None:
    assert error(found, expected) == pytest.approx(result)


def test_a_phase_is_judged_by_its_own_results() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    case = Case(lambda x: x * 3, (x,), loss=lambda y: y.sum())
    expected = reference(case, (FORWARD, STEP))
    y = x.detach() * 3
    good = Results((y,), (y.sum(),), (torch.full_like(x, 3.0),))
    wrong = Results((y,), (y.sum(),), (torch.full_like(x, 3.3),))
    for phase in (FORWARD, INFERENCE, BACKWARD, STEP):
        assert expected.error(good, phase) < 1e-5
    assert expected.error(wrong, FORWARD) < 1e-5
    assert expected.error(wrong, BACKWARD) == pytest.approx(0.1)
    assert expected.error(wrong, STEP) == pytest.approx(0.1)
    assert expected.eager.keys() == {FORWARD, STEP}


def test_what_does_not_fit_in_fp64_is_run_and_not_judged() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        if x.dtype == torch.float64:
            raise torch.OutOfMemoryError("no room")
        return x * 3

    x = torch.randn(5, 7, requires_grad=True)
    expected = reference(Case(function, (x,)), (FORWARD, BACKWARD))
    assert expected.eager == {FORWARD: None, BACKWARD: None}
    assert expected.error(Results((x * 3,)), FORWARD) is None
    assert [t.shape for t in expected.cotangents] == [x.shape]


def test_cotangents_are_dense_where_the_output_is_a_view() -> None:
    x = torch.randn(5, 7, requires_grad=True)
    (cotangent,) = reference(Case(lambda x: x.t() * 1, (x,)), (BACKWARD,)).cotangents
    assert cotangent.shape == (7, 5)
    assert cotangent.is_contiguous()


def test_the_weights_of_a_model_are_judged_and_stay_what_they_are() -> None:
    torch.manual_seed(0)
    layer = torch.nn.Linear(6, 4).to(torch.bfloat16)
    x = torch.randn(3, 6, dtype=torch.bfloat16)
    case = Case(layer, (x,))
    expected = reference(case, (BACKWARD,))
    assert [t.shape for t in case.wanted] == [(4, 6), (4,)]
    assert expected.wide is not None
    assert [t.dtype for t in expected.wide.gradients] == 2 * [torch.float32]
    assert layer.weight.dtype == torch.bfloat16
    assert 0 < expected.eager[BACKWARD] < 1e-2
