"""Reductions over all rows behind the rows: one launch, the same bits in any order of blocks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch

from tests.devices import ORDERS, copies, here
from tests.programs import (
    H200,
    STRICT,
    chain,
    check,
    cubin_of,
    cuda_kernels,
    expand,
    fusion,
    like,
    plan_of,
    run,
    total,
    unsqueeze,
    whole,
)
from tests.schedule.test_streams import denominator
from thunder_fuser.codegen.emit import emit
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import apply, call
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel import split_ir
from thunder_fuser.kernel.templates import draft, variants
from thunder_fuser.ops.reductions import SQUARED_DEVIATION
from thunder_fuser.options import Options

pytestmark = [pytest.mark.usefixtures("device", "wide_host"), pytest.mark.sanitizer]
Program = Callable[[TensorView], tuple[TensorView, ...]]


def spread(reduced: TensorView, columns: int) -> TensorView:
    return expand(unsqueeze(reduced, 1), *reduced.shape, columns)


def largest(x: TensorView) -> tuple[TensorView, ...]:
    """The sum of the rows' largest elements, halved."""
    return (call("mul", total(call("max", x, dims=(x.ndim - 1,)), *range(x.ndim - 1)), HALF),)


def below_largest(x: TensorView) -> tuple[TensorView, ...]:
    """Whole rows, stored beside what is summed over all of them."""
    top = call("max", x, dims=(1,))
    return call("sub", x, spread(top, x.shape[1])), *largest(x)


def carried_on(x: TensorView) -> tuple[TensorView, ...]:
    return call("cumsum", x, dim=1, reverse=False), *largest(x)


HALF = sc.constant(0.5)
# How the rows are walked, and where they are; some are of odd length.
CASES: dict[str, tuple[Program, tuple[int, ...]]] = {
    "several rows a block": (largest, (37, 70)),
    "few rows": (largest, (3, 70)),
    "bundles of short rows": (largest, (1009, 70)),
    "bundles of a row a block": (largest, (521, 1040)),
    "a row a block": (largest, (53, 4100)),
    "odd rows": (below_largest, (41, 1003)),
    "rows of several dims": (largest, (5, 9, 66)),
    "rows of a cluster": (below_largest, (5, 40003)),
    "rows that are read again": (below_largest, (9, 140000)),
    "rows in pieces": (largest, (9, 40001)),
    "rows scanned in registers": (carried_on, (11, 300)),
    "rows scanned piece by piece": (carried_on, (3, 20011)),
}


@pytest.mark.parametrize("name", CASES)
def test_one_launch_reduces_each_row_and_all_rows(name: str) -> None:
    program, shape = CASES[name]
    x = whole(*shape)
    (a,) = like(x)
    plan = check(fusion([a], *program(a)), x, orders=ORDERS)
    assert plan.launches == 1


def test_the_cases_walk_rows_in_different_ways() -> None:
    if here().type != "cpu":
        pytest.skip("schedules for a GPU of another size differ")
    found = {}
    for name, (program, shape) in CASES.items():
        x = torch.empty(shape)
        (a,) = like(x)
        (source,) = plan_of(fusion([a], *program(a)), x, options=STRICT).kernels
        assert source is not None
        found[name] = (source.cluster > 1, source.tickets > 1, "is_active" in source.text)
    assert found["rows of a cluster"] == (True, False, False)
    assert found["rows in pieces"] == (False, True, False)
    assert found["several rows a block"] == (False, False, True)
    assert found["a row a block"] == (False, False, False)


def logsumexp(x: TensorView) -> tuple[TensorView, ...]:
    """Streamed; the mean over the rows, and a value of each."""
    row = chain(denominator(x), "log")
    return call("truediv", total(row, 0), sc.constant(float(x.shape[0]))), row


@pytest.mark.parametrize(
    "name", ["rows of a cluster", "rows that are read again", "rows in pieces"]
)
def test_other_rows_come_in_bundles_too(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_ir, "MIN_BUNDLE", 4)
    program, (rows, columns) = CASES[name]
    x = whole(rows, columns)
    (a,) = like(x)
    plan = check(fusion([a], *program(a)), x, options=replace(STRICT, thread_order="shuffled"))
    (source,) = plan.kernels
    assert source is not None
    of_tail = -(-rows // 4) + 1
    assert source.tickets == of_tail + (rows if name == "rows in pieces" else 0)


def test_more_rows_than_one_block_counts() -> None:
    """Of a prime number of rows, and a count of those that matter."""
    x, w = whole(12007, 40), torch.randint(0, 2, (12007,)).float()
    a, b = like(x, w)
    row = call("mul", call("max", a, dims=(1,)), b)
    program = fusion([a, b], call("div", total(row, 0), total(b, 0)))
    assert check(program, x, w, orders=ORDERS).launches == 1


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_one_row_makes_reaches_the_sum_of_all(value: float) -> None:
    x = whole(601, 70)
    x[517, 3] = value
    (a,) = like(x)
    summed = total(call("sum", a, dims=(1,)), 0)
    check(fusion([a], summed, *largest(a)), x)


@pytest.mark.parametrize("rows", [5, 43])
def test_streamed_rows_have_errors_like_eagers_and_the_same_bits_in_every_order(rows: int) -> None:
    x = torch.randn(rows, 8192 + 4 * 37)
    (a,) = like(x)
    program = fusion([a], *logsumexp(a))
    assert plan_of(program, *copies([x]), options=Options()).launches == 1
    found = [run(program, x, options=Options(thread_order=order)) for order in ORDERS]
    assert all(torch.equal(found[0][0], other[0]) for other in found)
    exact, eager = ((torch.logsumexp(t, 1) - t.amax(1)) for t in (x.double(), x))
    assert (found[0][1] - exact).abs().max() <= 2 * (eager - exact).abs().max() + 2**-22
    error = (found[0][0] - exact.mean()).abs()
    assert error <= 2 * (eager.mean() - exact.mean()).abs() + 2**-21


def test_what_no_row_makes_is_summed_beside_them() -> None:
    """A weighted mean: the count needs no row."""
    x, w = whole(45, 130), torch.randint(0, 2, (45,)).float()
    a, b = like(x, w)
    weighted = total(call("mul", call("max", a, dims=(1,)), b), 0)
    mean = call("cast", call("div", weighted, total(b, 0)), dtype=DataType.BFloat16)
    assert check(fusion([a, b], mean, weighted), x, w, orders=ORDERS).launches == 1


@pytest.mark.parametrize(
    "dtype", [torch.bfloat16, torch.float16, torch.float64, torch.int64, torch.int32, torch.bool]
)
def test_any_real_type_and_reduction(dtype: torch.dtype) -> None:
    x = torch.randint(0, 2, (37, 70)).to(dtype)
    (a,) = like(x)
    row = call("max", a, dims=(1,))
    ops = ("sum", "prod", "max", "min", "any", "all")
    assert check(fusion([a], *(call(op, row, dims=(0,)) for op in ops)), x).launches == 1


def test_a_state_of_several_numbers() -> None:
    """The variance of what the rows were reduced to, in one pass over them."""
    x = torch.randn(53, 130) + 300
    (a,) = like(x)
    deviation = apply(SQUARED_DEVIATION, [call("max", a, dims=(1,))], {"dims": (0,)})
    assert isinstance(deviation, TensorView)
    program = fusion([a], deviation)
    assert plan_of(program, *copies([x]), options=Options()).launches == 1
    (found,) = run(program, x)
    top = x.amax(1).double()
    exact = (top - top.mean()).square().sum()
    torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=0)


def test_what_follows_is_written_in_place() -> None:
    x, running = whole(37, 70), whole()
    a, r = like(x, running)
    new = call("add", r, total(total(a, 1), 0))
    plan = check(fusion([a, r], chain(new, "neg"), writes=[(new, r)]), x, running)
    assert plan.launches == 1


def test_every_row_reads_what_is_written_behind_them() -> None:
    x, running = whole(37, 70), whole(1)
    a, r = like(x, running)
    row = call("add", total(a, 1), expand(r, 37))
    new = unsqueeze(total(row, 0), 0)
    assert check(fusion([a, r], row, writes=[(new, r)]), x, running).launches == 1


def test_a_call_leaves_the_tickets_for_the_next() -> None:
    x = whole(601, 70)
    (a,) = like(x)
    plan = plan_of(fusion([a], *largest(a)), *copies([x]), options=STRICT)
    wanted = x.amax(1).sum() / 2
    for _ in range(3):
        (found,) = plan.run(*copies([x]))
        assert torch.equal(found.cpu(), wanted)


@pytest.mark.parametrize("mode", ["bounds", "nan"])
def test_checks_hold(mode: str) -> None:
    x = whole(37, 70)
    (a,) = like(x)
    check(fusion([a], *largest(a)), x, options=replace(STRICT, check=mode))


def test_other_numbers_of_rows_are_one_family() -> None:
    texts = set()
    for rows in (500, 8192):
        x = torch.empty(rows, 4096)
        (a,) = like(x)
        _, (kernel,) = cuda_kernels(fusion([a], *largest(a)), x)
        texts.add(emit(kernel).fragments)
    assert len(texts) == 1


SPILL_FREE: dict[str, tuple[Program, tuple[int, int]]] = {
    "short rows": (largest, (12000, 64)),
    "rows": (below_largest, (8192, 4096)),
    "odd rows": (below_largest, (8191, 5003)),
    "clusters": (below_largest, (4096, 65536)),
    "streams": (logsumexp, (8192, 32000)),
    "odd streams": (logsumexp, (8192, 50257)),
    "few streams": (logsumexp, (300, 128256)),
}


@pytest.mark.parametrize("name", SPILL_FREE)
def test_nvrtc_compiles_the_kernels_of_the_tuner_without_spills(name: str) -> None:
    """Rivals take each other's place, so they must want the same workspace."""
    program, shape = SPILL_FREE[name]
    x = torch.empty(shape, dtype=torch.bfloat16)
    (a,) = like(x)
    segmented, _ = cuda_kernels(fusion([a], *program(a)), x)
    (segment,) = segmented.segments
    preferred = draft(segment, H200, False)
    rivals = [preferred, *variants(segment, H200, preferred)]
    sources = {emit(rival.lower(False)) for rival in rivals}
    assert len({(s.workspace_bytes, s.tickets) for s in sources}) == 1
    assert cubin_of(preferred.lower(False)).spill_bytes == 0
