"""Other names of ops are those ops."""

from __future__ import annotations

import pytest
import torch

from tests.executor.jitted import check, jit
from thunder_fuser import explain
from thunder_fuser.executor.synonyms import SYNONYMS

pytestmark = pytest.mark.usefixtures("device")
UNARY = {
    "absolute", "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctanh", "negative",
    "special_erf", "special_erfc", "special_exp2", "special_expm1", "special_log1p",
}  # fmt: skip
REST = {
    "arctan2": lambda x: torch.arctan2(x, x + 1),
    "clamp_max": lambda x: x.clamp_max(0.6),
    "clamp_min": lambda x: torch.clamp_min(x, min=0.6),
    "clip": lambda x: x.clip(0.3, max=0.6),
    "divide": lambda x: torch.divide(x, x + 1, rounding_mode="floor"),
    "greater": lambda x: torch.where(torch.greater(x, 0.5), x, -x),
    "greater_equal": lambda x: torch.where(x.greater_equal(0.5), x, -x),
    "less": lambda x: torch.where(x.less(0.5), x, -x),
    "less_equal": lambda x: torch.where(torch.less_equal(x, 0.5), x, -x),
    "moveaxis": lambda x: x.moveaxis(0, 1) * 2,
    "multiply": lambda x: torch.multiply(x, x),
    "not_equal": lambda x: torch.where(torch.not_equal(x, 0.5), x, -x),
    "special_logsumexp": lambda x: torch.special.logsumexp(x, 1),
    "subtract": lambda x: torch.subtract(x, x * x, alpha=2),
    "swapaxes": lambda x: x.swapaxes(0, 1) * 2,
    "swapdims": lambda x: torch.swapdims(x, 0, 1) * 2,
}


def test_every_synonym_is_tested() -> None:
    assert {f.__name__ for f in SYNONYMS} == UNARY | REST.keys()


@pytest.mark.parametrize("function", [f for f in SYNONYMS if f.__name__ in UNARY])
def test_functions_of_one_tensor(function: object) -> None:
    assert callable(function)
    offset = 1.1 if function is torch.arccosh else 0.1
    jfn = check(lambda x: function(x * 0.8 + offset) * 2, torch.rand(5, 33, requires_grad=True))
    assert "no rule for" not in explain(jfn)


@pytest.mark.parametrize("name", REST)
def test_functions_with_arguments(name: str) -> None:
    jfn = check(lambda x: REST[name](x) * 2, torch.rand(5, 33, requires_grad=True))
    assert "no rule for" not in explain(jfn)


def test_a_keyword_that_only_torch_has_is_torchs(device: torch.device) -> None:
    x = torch.rand(5, 33, device=device)
    jfn = jit(lambda x: torch.clip(x, min=0.3) + torch.multiply(input=x, other=x))
    torch.testing.assert_close(jfn(x), x.clip(min=0.3) + x * x)
    assert "no rule for multiply" in explain(jfn)
