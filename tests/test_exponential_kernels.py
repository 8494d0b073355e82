"""Exponentials below a maximum in one pass down columns: values beside those of torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.presegment.test_one_pass_exponentials import below, guarded, top
from tests.programs import STRICT, chain, fusion, like, plan_of, total
from thunder_fuser.ir.build import call

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]
RELAXED = replace(STRICT, strict=False)
SHAPES = {
    "one block": (1600, 40),
    "whole batches": (3072, 40),
    "several blocks": (9001, 16),
    "packed": (2051, 33),
}


def columns(*shape: int) -> torch.Tensor:
    """Noise, rising ones, and such with what is no finite number."""
    x = 5 * torch.randn(shape)
    x[:, 0], x[::2, 1], x[5, 2], x[77, 3] = -torch.inf, -torch.inf, torch.inf, torch.nan
    x[5, 4], x[99, 4], x[5, 5], x[6, 5] = torch.inf, torch.inf, torch.inf, torch.nan
    x[:, 6] = torch.arange(shape[0]) * 0.01
    return x


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", SHAPES)
def test_logarithms_of_sums_are_those_of_torch(name: str, order: str) -> None:
    x = columns(*SHAPES[name])
    (a,) = like(x)
    most = guarded(a)
    logsumexp = call("add", chain(total(below(a, most), 0), "log"), most)
    program = fusion([a], logsumexp, chain(total(below(a, top(a)), 0), "log"))
    plan = plan_of(program, *copies([x]), options=replace(RELAXED, thread_order=order))
    assert any("_terms[" in text for text in plan.sources if text is not None)
    found, log = (t.cpu() for t in plan.run(*copies([x])))
    exact = torch.logsumexp(x.double(), 0)
    torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=1e-6, equal_nan=True)
    distance = exact - x.double().amax(0)
    torch.testing.assert_close(log.double(), distance, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_strict_sums_them_below_the_maximum_of_all() -> None:
    x = columns(1600, 40)
    (a,) = like(x)
    plan = plan_of(fusion([a], total(below(a, top(a)), 0)), *copies([x]), options=STRICT)
    assert not any("tf::below" in text for text in plan.sources if text is not None)
