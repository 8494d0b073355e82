"""Reductions whose terms several blocks share: one launch, the same bits in any order of blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS, copies
from tests.programs import (
    STRICT,
    chain,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    plan_of,
    total,
    unsqueeze,
    whole,
)
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir.build import call
from thunder_fuser.runtime.plan import Plan

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]


def is_split(plan: Plan) -> bool:
    return any(k is not None and k.tickets > 0 for k in plan.kernels)


# Columns, several of a thread and odd; few long rows, odd ones too; axes that lie scattered.
CASES = {
    "columns": ((1200, 48), (0,)),
    "odd columns": ((1031, 7), (0,)),
    "one column": ((2999, 1, 3), (0, 1)),
    "columns of planes": ((3, 1300, 40), (1,)),
    "everything": ((300, 1001), (0, 1)),
    "a prime": ((65537,), (0,)),
    "few rows": ((3, 70001), (1,)),
    "few aligned rows": ((2, 40000), (1,)),
    "a row in pieces of several turns": ((600_000,), (0,)),
    "rows in pieces of several turns": ((5, 140_003), (1,)),
    "channels": ((40, 3, 1000), (0, 2)),
    "odd channels": ((33, 5, 27, 31), (0, 2, 3)),
}


@pytest.mark.parametrize("name", CASES)
def test_one_launch_sums_what_blocks_share(name: str) -> None:
    shape, dims = CASES[name]
    x = whole(*shape)
    (a,) = like(x)
    plan = check(fusion([a], chain(total(chain(a, "neg"), *dims), "abs")), x, orders=ORDERS)
    assert plan.launches == 1
    assert is_split(plan)


@pytest.mark.parametrize("name", CASES)
def test_the_plane_is_stored_in_the_same_launch(name: str) -> None:
    shape, dims = CASES[name]
    x = whole(*shape)
    (a,) = like(x)
    e = chain(a, "neg")
    plan = check(fusion([a], e, total(e, *dims)), x)
    assert plan.launches == 1
    assert is_split(plan)


@pytest.mark.parametrize("name", ["odd columns", "few rows", "odd channels"])
def test_the_order_of_blocks_does_not_show_in_a_bit(name: str) -> None:
    shape, dims = CASES[name]
    x = torch.randn(shape)
    (a,) = like(x)
    found = []
    for order in ORDERS:
        program, options = fusion([a], total(a, *dims)), replace(STRICT, thread_order=order)
        plan = plan_of(program, *copies([x]), options=options)
        for _ in range(3):  # shuffled anew each time
            (result,) = plan.run(*copies([x]))
            found.append(result.cpu())
    assert all(torch.equal(found[0], other) for other in found)
    error, eager = (
        (t.double() - x.double().sum(dims)).abs().max() for t in (found[0], x.sum(dims))
    )
    assert error <= 2 * eager + 1e-4


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.bool]
)
@pytest.mark.parametrize("name", ["odd columns", "few rows"])
def test_any_real_type_is_summed(name: str, dtype: torch.dtype) -> None:
    shape, dims = CASES[name]
    x = torch.randint(0, 2, shape).to(dtype)
    (a,) = like(x)
    plan = check(fusion([a], *(call(op, a, dims=dims) for op in ("sum", "max", "all"))), x)
    assert plan.launches == 1
    assert is_split(plan) or dtype.itemsize == 1  # a piece has more of them


@pytest.mark.parametrize(("shape", "dim"), [((700, 40), 0), ((2, 300007), 1)])
def test_what_follows_element_by_element_is_done_by_the_last_block(
    shape: tuple[int, int], dim: int
) -> None:
    x, running = whole(*shape), whole(shape[1 - dim])
    a, r = like(x, running)
    new = call("add", r, total(a, dim))
    plan = check(fusion([a, r], chain(new, "neg"), writes=[(new, r)]), x, running)
    assert plan.launches == 1


@pytest.mark.parametrize(("shape", "dim"), [((20000, 40), 0), ((2, 600011), 1)])
def test_what_reads_the_sum_at_every_element_is_a_second_launch(
    shape: tuple[int, int], dim: int
) -> None:
    x = whole(*shape)
    (a,) = like(x)
    spread = expand(unsqueeze(total(a, dim), dim), *shape)
    assert check(fusion([a], call("sub", a, spread)), x).launches == 2


def test_a_workspace_and_zeros_are_told_in_the_plan() -> None:
    x = whole(1031, 7)
    (a,) = like(x)
    plan = plan_of(fusion([a], total(a, 0)), *copies([x]), options=STRICT)
    (source,) = plan.kernels
    assert source is not None
    assert [p.name for p in source.parameters[-2:]] == ["workspace", "tickets"]
    assert f"({source.workspace_bytes},)" in plan.text
    assert "workspace.data_ptr(), zeros.data_ptr())" in plan.text


@pytest.mark.parametrize("mode", ["bounds", "nan"])
def test_checks_hold(mode: str) -> None:
    x = whole(1031, 7)
    (a,) = like(x)
    check(fusion([a], total(a, 0)), x, options=replace(STRICT, check=mode))


# Beside them the bytes of a part: more parts than these would be read by one block.
SPILL_FREE = {
    "column sum": ((16384, 8192), (0,)),
    "a few columns": ((1 << 20, 64), (0,)),
    "odd columns": ((50257, 257), (0,)),
    "full sum": ((16384, 8192), (0, 1)),
    "few rows": ((8, 1 << 20), (1,)),
    "few odd rows": ((5, 1000003), (1,)),
    "channels": ((64, 256, 56, 56), (0, 2, 3)),
    "odd channels": ((64, 2048, 7, 7), (0, 2, 3)),
}


@pytest.mark.parametrize("name", SPILL_FREE)
def test_nvrtc_compiles_it_without_spills(name: str) -> None:
    shape, dims = SPILL_FREE[name]
    x = torch.empty(shape, dtype=torch.bfloat16)
    (a,) = like(x)
    _, kernels = cuda_kernels(fusion([a], total(a, *dims), total(call("mul", a, a), *dims)), x)
    (kernel,) = kernels
    source = emit(kernel)
    assert name == "odd channels" or source.tickets > 0
    assert cubin_of(kernel).spill_bytes == 0
