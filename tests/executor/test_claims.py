"""What is claimed, and the reason given for what is not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import thunder
import torch
import torch.nn.functional as F

from tests.devices import here
from tests.executor.jitted import jit, regions
from thunder_fuser import fuser
from thunder_fuser.executor.claims import ROW_OF_PRIM, why_not
from thunder_fuser.ops import OPS


def reasons(fn: Callable[..., Any], *args: torch.Tensor) -> dict[str, str | None]:
    """Why each op of the trace is not claimed, by its name."""
    jfn = thunder.jit(fn, executors=[])
    jfn(*args)
    return {b.sym.name: why_not(b) for b in thunder.last_traces(jfn)[0].bound_symbols}


@pytest.mark.parametrize(
    ("op", "make", "reason"),
    [
        ("matmul", lambda x: x @ x.t(), "no rule for matmul"),
        ("cumprod", lambda x: torch.cumprod(x, 0), "no rule for cumprod"),
        ("var", lambda x: x.var(1, correction=0.5), "a correction of 0.5"),
        ("var", lambda x: x.var(1, correction=5), "a correction of 5 leaves no degrees of"),
    ],
)
def test_an_unclaimed_op_has_a_reason(
    op: str, make: Callable[[torch.Tensor], torch.Tensor], reason: str
) -> None:
    found = reasons(lambda x: make(x) + 1, torch.randn(70, 3))
    assert re.search(reason, found[op] or ""), found
    assert found["add"] is None


def test_a_long_reduction_of_complex_numbers_stays_with_torch() -> None:
    found = reasons(lambda x: x.sum(0), torch.randn(70, 3, dtype=torch.complex64))
    assert found["sum"] == "sum: it reduces 70 complex numbers; at most 32"
    assert reasons(lambda x: x.sum(1), torch.randn(70, 3, dtype=torch.complex64))["sum"] is None


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x.var(1),
        lambda x: torch.std(x > 0, 1),
        lambda x: torch.var_mean(x, (0, 1)),
        lambda x: x.softmax(1),
        lambda x: torch.log_softmax(x, 1),
        lambda x: F.layer_norm(x, (3,)),
        lambda x: F.group_norm(x, 3),
        lambda x: F.batch_norm(x, None, None, training=True),
    ],
)
@pytest.mark.usefixtures("device")
def test_torchs_refusal_of_integers_stays(make: Callable[[torch.Tensor], torch.Tensor]) -> None:
    x = torch.randint(5, (70, 3)).to(here())
    with pytest.raises(RuntimeError, match=r"only support floating point|not implemented for"):
        jit(lambda x: make(x * 2))(x)


def test_probabilities_of_integers_as_floats_are_claimed() -> None:
    x = torch.randint(5, (70, 3))
    found = reasons(lambda x: torch.log_softmax(x, 1, dtype=torch.float32), x)
    assert found["log_softmax"] is None


def test_a_reduction_of_a_number_stays_with_torch() -> None:
    found = reasons(lambda x: x.amax(0), torch.randn(()))
    assert found["amax"] == "amax: it reduces a dim of a tensor that has none"


@pytest.mark.parametrize("reduce", [torch.sum, torch.amax, torch.amin, torch.var_mean])
@pytest.mark.parametrize("dims", [(0,), (0, 2), (2,), (1, 2), (0, 1, 2)])
def test_reductions_of_any_axes_are_claimed(
    reduce: Callable[..., Any], dims: tuple[int, ...]
) -> None:
    found = reasons(lambda x: reduce(x, dims), torch.randn(4, 70, 8))
    assert found[reduce.__name__] is None


def test_a_product_is_claimed() -> None:
    assert reasons(lambda x: x.prod(1), torch.randn(3, 70))["prod"] is None


def test_dtypes_come_from_the_row() -> None:
    found = reasons(lambda x: torch.bitwise_not(x), torch.arange(5))
    assert found["bitwise_not"] is None


def test_every_prim_of_the_table_exists_in_thunder() -> None:
    missing = [name for name in ROW_OF_PRIM if not hasattr(thunder.core.prims.PrimIDs, name)]
    assert not missing


def test_every_row_with_a_prim_is_registered() -> None:
    registered = {getattr(symbol_id, "name", symbol_id) for symbol_id in fuser.implmap}
    assert {prim for row in OPS.values() for prim in row.prims} <= registered


def test_a_users_op_is_claimed_with_its_translator() -> None:
    from thunder.core.proxies import TensorProxy
    from thunder.extend import OperatorExecutor

    library = OperatorExecutor("scaled_library")
    scaled = library.register_operator(
        "scaled_sine", meta=lambda x, factor: TensorProxy(like=x), fn=lambda x, f: f * torch.sin(x)
    )
    fuser.register_translator(
        scaled,
        lambda fd, x, factor: fd.ops.mul(fd.ops.sin(x), factor),
        lambda x, factor: None if factor > 0 else "the factor is not positive",
    )

    def program(x: torch.Tensor, factor: float) -> torch.Tensor:
        return scaled(x, factor) + 1

    x = torch.randn(3, 5)
    claimed = jit(program)
    torch.testing.assert_close(claimed(x, 2.5), 2.5 * torch.sin(x) + 1)
    assert regions(claimed).forward == (("scaled_sine", "add"),)
    refused = jit(program)
    torch.testing.assert_close(refused(x, -2.5), -2.5 * torch.sin(x) + 1)
    assert regions(refused).forward == ()
