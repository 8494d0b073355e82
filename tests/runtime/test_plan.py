"""Launch plans: what is allocated, launched, viewed and released, as printed text."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from io import StringIO
from pathlib import Path
from textwrap import dedent

import pytest
import torch

from tests import fresh
from tests.programs import (
    STRICT,
    chain,
    check,
    fusion,
    like,
    permute,
    piece,
    plan_of,
    stop,
    total,
    unsqueeze,
)
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call, tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.runtime.errors import LaunchError
from thunder_fuser.runtime.failures import run_failure
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.runtime.plan import build_plan

ON_EVERY_DEVICE = pytest.mark.usefixtures("device")
ROOT = Path(__file__).parents[2]


def test_a_plan_reads_as_straight_line_python() -> None:
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    a, b = like(x, y)
    middle = stop(call("mul", a, b))
    plan = check(fusion([a, b], chain(middle, "neg"), permute(a, 1, 0)), x, y)
    assert plan.text == dedent("""\
        def run(T0, T1):
            T3 = empty((4, 6), (6, 1), dtype=float32, device=device)
            launch0(0, T0.data_ptr(), T1.data_ptr(), T3.data_ptr())
            T4 = empty((4, 6), (6, 1), dtype=float32, device=device)
            launch1(0, T3.data_ptr(), T4.data_ptr())
            del T3
            T5 = T0.as_strided((6, 4), (1, 6))
            return [T4, T5]
        """)


def test_what_is_returned_as_one_view_is_allocated_as_that() -> None:
    x = torch.randint(-9, 9, (4, 6)).float()
    (a,) = like(x)
    plan = check(fusion([a], unsqueeze(total(a, 1), 1)), x)
    assert plan.text == dedent("""\
        def run(T0):
            T2 = empty((4, 1), (1, 1), dtype=float32, device=device)
            launch0(0, T0.data_ptr(), T2.data_ptr())
            return [T2]
        """)


def test_what_is_returned_beside_a_view_of_it_keeps_its_shape(device: torch.device) -> None:
    x = torch.randn(4, 6).to(device)
    (a,) = like(x)
    sums = total(a, 1)
    whole, view = plan_of(fusion([a], sums, unsqueeze(sums, 1)), x).run(x)
    assert (whole.shape, view.shape) == ((4,), (4, 1))
    assert whole.data_ptr() == view.data_ptr()
    torch.testing.assert_close(whole, x.sum(1))


def empty_cpu(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(shape, strides, dtype=dtype)


def test_a_plan_makes_its_device_current_where_another_one_is(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a stand-in for two GPUs, of which the other one is current."""
    current, launches, allocations = [0], [], []

    @contextmanager
    def on(ordinal: int) -> Iterator[None]:
        current.append(ordinal)
        yield
        current.pop()

    def empty(shape: tuple[int, ...], strides: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
        allocations.append(current[-1])
        return empty_cpu(shape, strides, dtype)

    def launch(stream: int, source: int, result: int) -> None:
        launches.append((current[-1], stream))

    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: current[-1], raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda k: 70 + k, raising=False)
    monkeypatch.setattr(torch._C._dynamo.guards, "_empty_strided_cuda", empty, raising=False)
    monkeypatch.setattr(torch.cuda, "device", on)
    x = torch.randn(4, 6)
    (a,) = like(x)
    made = plan_of(fusion([a], chain(a, "neg")), x, options=STRICT)
    plan = build_plan(
        made.segmented, made.kernels, [launch], made.arguments, torch.device("cuda", 1)
    )
    plan.run(x)
    assert (allocations, launches, current) == ([1], [(1, 71)], [0])
    current.append(1)
    plan.run(x)
    assert (allocations, launches, current) == ([1, 1], [(1, 71)] * 2, [0, 1])


def test_a_failing_launch_is_told_with_its_segment_whatever_device_is_current(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    current = [0]

    @contextmanager
    def on(ordinal: int) -> Iterator[None]:
        current[0] = ordinal
        yield

    def launch(*values: int) -> None:
        raise LaunchError("no such stream")

    monkeypatch.setattr(torch._C, "_cuda_getDevice", lambda: current[0], raising=False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", int, raising=False)
    monkeypatch.setattr(torch._C._dynamo.guards, "_empty_strided_cuda", empty_cpu, raising=False)
    monkeypatch.setattr(torch.cuda, "device", on)
    x = torch.randn(4, 6)
    (a,) = like(x)
    made = plan_of(fusion([a], chain(a, "neg")), x, options=STRICT)
    place = torch.device("cuda", 1)
    plan = build_plan(made.segmented, made.kernels, [launch], made.arguments, place)
    with pytest.raises(LaunchError) as raised:
        plan.run(x)
    told = run_failure(raised.value, plan, Origin("TF1"), [x], STRICT)
    assert str(told).startswith("region TF1, segment 0 of 1: no such stream")


@ON_EVERY_DEVICE
def test_an_edge_is_released_after_its_last_reader() -> None:
    x = torch.randn(4, 6)
    (a,) = like(x)
    first = stop(call("mul", a, a))
    second = stop(call("mul", first, a))
    third = call("mul", second, first)
    plan = check(fusion([a], third), x)
    lines = plan.text.splitlines()
    (released,) = (k for k, line in enumerate(lines) if "del" in line)
    assert released == max(k for k, line in enumerate(lines) if "launch" in line) + 1


def test_the_same_value_returned_twice_is_one_tensor(device: torch.device) -> None:
    x = torch.randn(4, 6).to(device)
    (a,) = like(x)
    value, view = chain(a, "neg"), piece(a, 1, 0, 3)
    found = plan_of(fusion([a], value, view, value, view, a), x).run(x)
    assert found[0] is found[2]
    assert found[1] is found[3]
    assert found[4] is x


def test_scalars_are_computed_once_and_passed_to_each_segment(device: torch.device) -> None:
    x = torch.randn(4, 6).to(device)
    (a,) = like(x)
    n = sc.symbol("n", sc.constant(1).dtype)
    twice = sc.mul(n, sc.constant(2))
    value = call("mul", stop(call("mul", a, twice)), twice)
    program = Fusion((a, n), (value,))
    plan = plan_of(program, x, 3, options=STRICT)  # type: ignore[arg-type]
    assert plan.text.count("= compute_") == 1
    assert plan.text.count(", s1)") == 2
    assert torch.equal(plan.run(x, 3)[0], x * 6 * 6)


@ON_EVERY_DEVICE
def test_no_launch_for_nothing() -> None:
    x = torch.empty(0, 5)
    (a,) = like(x)
    plan = check(fusion([a], chain(a, "neg"), total(a, 1)), x)
    assert plan.launches == 0


PRINT_PLAN = """
from tests.rope import Rope
from tests.programs import UNCOMPILED, cuda_kernels, plan_of
from tests.random_fusions import random_fusion
from thunder_fuser.codegen.emit import emit
program = Rope().backward()
arguments = Rope().arguments(program)
segmented, kernels = cuda_kernels(program, *arguments)
print(segmented, *(emit(k).text for k in kernels))
for seed in range(6):
    program, arguments = random_fusion(seed, 14)
    print(program, plan_of(program, *arguments))
"""


def test_plans_do_not_depend_on_the_hash_seed() -> None:
    """This process hashes by a random seed, the other one by seed 1."""
    with redirect_stdout(StringIO()) as here:
        exec(PRINT_PLAN, {})
    assert len(here.getvalue()) > 10_000
    assert here.getvalue() == fresh.output(PRINT_PLAN)


@ON_EVERY_DEVICE
def test_the_last_write_into_a_target_wins() -> None:
    x = torch.randn(4, 6)
    (a,) = like(x)
    first, second = chain(a, "neg"), chain(a, "abs")
    check(fusion([a], first, writes=[(first, a), (second, a)]), x)


@ON_EVERY_DEVICE
@pytest.mark.parametrize("rank", [0, 1, 8, 9])
def test_every_rank_runs(rank: int) -> None:
    shape = (2,) * rank
    x = torch.randn(shape)
    a = tensor(like(x)[0].dtype, *shape)
    turned = permute(a, *reversed(range(rank)))
    check(fusion([a], call("add", chain(turned, "neg"), a), turned), x)
