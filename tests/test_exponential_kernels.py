"""Exponentials below a maximum in one pass: values beside those of torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import CPU, ORDERS, copies, here
from tests.presegment.test_one_pass_exponentials import below, guarded, top
from tests.programs import STRICT, chain, fusion, like, plan_of, total
from thunder_fuser.ir.build import call

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]
RELAXED = replace(STRICT, strict=False)
# Of columns of one block, of several and packed; of rows that several blocks share, odd ones too.
CASES = {
    "one block": ((1600, 40), 0),
    "whole batches": ((3072, 40), 0),
    "several blocks": ((9001, 16), 0),
    "packed": ((2051, 33), 0),
    "rows": ((7, 65536), 1),
    "odd rows": ((7, 70001), 1),
}


def values(shape: tuple[int, int], dim: int) -> torch.Tensor:
    """Noise, rising ones, and such with what is no finite number, along that dim."""
    x = 5 * torch.randn(shape[dim], shape[1 - dim])
    x[:, 0], x[::2, 1], x[5, 2], x[77, 3] = -torch.inf, -torch.inf, torch.inf, torch.nan
    x[5, 4], x[99, 4], x[5, 5], x[6, 5] = torch.inf, torch.inf, torch.inf, torch.nan
    x[:, 6] = torch.arange(shape[dim]) * 0.01
    return x.movedim(0, dim).contiguous()


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("name", CASES)
def test_logarithms_of_sums_are_those_of_torch(name: str, order: str) -> None:
    shape, dim = CASES[name]
    x = values(shape, dim)
    (a,) = like(x)
    most = guarded(a, dim)
    logsumexp = call("add", chain(total(below(a, most, dim), dim), "log"), most)
    program = fusion([a], logsumexp, chain(total(below(a, top(a, dim), dim), dim), "log"))
    plan = plan_of(program, *copies([x]), options=replace(RELAXED, thread_order=order))
    assert plan.launches == 1
    if here() == CPU:  # blocks of a larger machine have whole batches of others
        assert any("_terms[" in text for text in plan.sources if text is not None)
    found, log = (t.cpu() for t in plan.run(*copies([x])))
    exact = torch.logsumexp(x.double(), dim)
    torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=1e-6, equal_nan=True)
    distance = exact - x.double().amax(dim)
    torch.testing.assert_close(log.double(), distance, rtol=1e-5, atol=1e-5, equal_nan=True)


def test_strict_sums_them_below_the_maximum_of_all() -> None:
    x = values((1600, 40), 0)
    (a,) = like(x)
    plan = plan_of(fusion([a], total(below(a, top(a)), 0)), *copies([x]), options=STRICT)
    assert not any("tf::below" in text for text in plan.sources if text is not None)
