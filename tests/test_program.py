"""A fusion and its plans, as several threads call it."""

from __future__ import annotations

from collections.abc import Callable
from threading import Barrier, Thread
from typing import Any

import pytest
import torch

from tests.programs import UNCOMPILED, chain, full, fusion
from thunder_fuser import program
from thunder_fuser.dtypes import DataType
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import tensor
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.options import Options
from thunder_fuser.program import Program
from thunder_fuser.runtime.errors import LaunchError
from thunder_fuser.runtime.origin import Origin
from thunder_fuser.runtime.plan import Plan


def negation() -> Program:
    a = tensor(DataType.Float, sc.symbol("i0", DataType.Int))
    return Program(fusion([a], chain(a, "neg")))


def at_once(count: int, work: Callable[[int], None]) -> None:
    """`work` in `count` threads that start together; raises what the first of them raised."""
    barrier, raised = Barrier(count), list[BaseException]()

    def run(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            raised.append(error)

    threads = [Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if raised:
        raise raised[0]


def test_threads_that_meet_a_class_at_once_share_one_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, made, both = negation(), [], Barrier(4)

    def slowly(*args: object) -> object:
        plan = make(*args)
        both.wait(timeout=60)  # none is remembered before all are made
        made.append(plan)
        return plan

    make = program.make_plan
    monkeypatch.setattr(program, "make_plan", slowly)
    found = []
    at_once(4, lambda _: found.append(ours.plan([torch.randn(5)], UNCOMPILED)))
    assert len(made) == 4
    assert len(set(map(id, found))) == 1
    assert ours.plans == (found[0],)
    assert not ours.recompiles


def test_a_fusion_without_tensors_has_a_plan_for_each_device_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, asked = Program(fusion([], full(2.0, 3))), []
    cpu, gpu = torch.device("cpu"), torch.device("cuda", 0)

    def on_the_host(made: Fusion, arguments: Any, options: Options, device: Any, *_: Any) -> Plan:
        asked.append(device)
        return make(made, arguments, options, cpu)

    make = program.make_plan
    monkeypatch.setattr(program, "make_plan", on_the_host)
    first, other, again = (ours.plan([], UNCOMPILED, device) for device in (cpu, gpu, cpu))
    assert asked == [cpu, gpu]
    assert again is first is not other
    assert list(ours.recompiles) == ["device is cuda:0, was cpu"]


def test_a_bound_run_keeps_its_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, x = negation(), torch.randn(5)
    run = ours.bound([x], UNCOMPILED)
    monkeypatch.setattr(program, "make_plan", None)
    monkeypatch.setattr(ours, "_key", None)
    assert torch.equal(run([x + 1])[0], -(x + 1))


def test_a_failing_launch_of_a_bound_run_is_told_with_its_region(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours, x = negation(), torch.randn(5)
    run = ours.bound([x], UNCOMPILED, origin=Origin("TF7"))

    def fail(*args: torch.Tensor) -> list[torch.Tensor]:
        raise LaunchError("no such stream")

    object.__setattr__(ours.plans[0], "run", fail)
    with pytest.raises(LaunchError, match=r"region TF7.*no such stream"):
        run([x])


def test_threads_that_evict_each_others_plans_get_their_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(program, "MAX_PLANS", 2)
    ours = negation()

    def work(number: int) -> None:
        for turn in range(20):
            x = torch.randn(1 + (number + turn) % 5)
            assert torch.equal(ours.run([x], UNCOMPILED)[0], -x)

    at_once(4, work)
    assert len(ours.plans) == 2
