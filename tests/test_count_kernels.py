"""What equals an extremum counted in the pass that finds it: values beside those of torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import CPU, ORDERS, copies, here
from tests.presegment.test_one_pass_counts import count, equal
from tests.programs import STRICT, check, fusion, like, plan_of
from thunder_fuser.ir.build import call, produce
from thunder_fuser.ops import OpDef
from thunder_fuser.ops.reductions import MAXIMA, MINIMA

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]
# Of columns of one block, of several and packed; of rows that several blocks share, odd ones too.
CASES = {
    "one block": ((600, 40), 0, 1),
    "whole batches": ((3072, 40), 0, 1),
    "several blocks": ((9001, 16), 0, 1),
    "packed": ((2051, 33), 0, 2),
    "rows": ((7, 65536), 1, 1),
    "odd rows": ((7, 70001), 1, 1),
}


def values(shape: tuple[int, int], dim: int) -> torch.Tensor:
    """Many equal ones, and such with what is no finite number, along that dim."""
    x = torch.randint(-9, 9, (shape[dim], shape[1 - dim])).float()
    x[:, 0], x[::2, 1], x[5, 2], x[77, 3] = -torch.inf, torch.inf, -torch.inf, torch.nan
    x[:, 4], x[3::2, 4], x[:, 5], x[6, 6] = 0.0, -0.0, torch.nan, torch.inf
    return x.movedim(0, dim).contiguous()


IN_ORDERS = [(name, ORDERS[0]) for name in CASES]
IN_ORDERS += [(name, order) for name in ("several blocks", "odd rows") for order in ORDERS[1:]]


@pytest.mark.parametrize(("name", "order"), IN_ORDERS)
def test_counts_are_those_of_torch(name: str, order: str) -> None:
    shape, dim, launches = CASES[name]
    x = values(shape, dim)
    (a,) = like(x)
    most, least = (call(row, a, dims=(dim,)) for row in ("max", "min"))
    program = fusion([a], most, *(count(equal(a, of, dim), dim) for of in (most, least)))
    plan = plan_of(program, *copies([x]), options=replace(STRICT, thread_order=order))
    if here() == CPU:  # blocks of a larger machine have whole batches of others
        assert plan.launches <= launches + 1
        assert any("tf::counted" in text for text in plan.sources if text is not None)
    top, largest, smallest = (t.cpu() for t in plan.run(*copies([x])))
    torch.testing.assert_close(top, x.amax(dim), rtol=0, atol=0, equal_nan=True)
    for found, of in ((largest, x.amax(dim, keepdim=True)), (smallest, x.amin(dim, keepdim=True))):
        torch.testing.assert_close(found, (x == of).sum(dim), rtol=0, atol=0)


@pytest.mark.parametrize("row", [MAXIMA, MINIMA])
def test_one_thread_counts_a_few(row: OpDef) -> None:
    x = values((88, 40), 0)[-9:]
    (a,) = like(x)
    check(fusion([a], produce(row, [a], {"dims": (0,)})), x)
