"""Long rows in pieces that blocks keep or walk: values beside those of torch."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.presegment.test_cut_rows import entropy
from tests.programs import STRICT, fusion, like, plan_of, total
from tests.test_exponential_kernels import values
from thunder_fuser.analysis import walked_rows
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir.build import call

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]
RELAXED = replace(STRICT, strict=False)


@pytest.mark.parametrize("order", ORDERS)
def test_an_entropy_of_long_rows_is_that_of_torch(order: str) -> None:
    x = values((7, 65536), 1)
    (a,) = like(x)
    plan = plan_of(
        fusion([a], entropy(a)), *copies([x]), options=replace(RELAXED, thread_order=order)
    )
    (found,) = (t.cpu() for t in plan.run(*copies([x])))
    away = x.double() - x.double().amax(1, keepdim=True)
    assert plan.launches == 2
    torch.testing.assert_close(found.double(), (away.exp() * away).sum(1), equal_nan=True)


@pytest.mark.usefixtures("few_multiprocessors")
def test_rows_and_columns_are_summed_of_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walked_rows, "MIN_WALKED", 1)
    x = torch.randn(5, 65536).to(torch.bfloat16)
    (a,) = like(x)
    wide = call("cast", a, dtype=DataType.Float)
    down, along = total(wide, 0), total(wide, 1)
    plan = plan_of(
        fusion([a], call("cast", down, dtype=a.dtype), along), *copies([x]), options=RELAXED
    )
    found = [t.cpu() for t in plan.run(*copies([x]))]
    assert [len(k.parameters) for k in plan.kernels if k is not None] == [3, 2]
    torch.testing.assert_close(found[0], x.double().sum(0).to(torch.bfloat16))
    torch.testing.assert_close(found[1].double(), x.double().sum(1), rtol=1e-5, atol=1e-3)
