"""Contests: laps in turns on the arguments of the call, medians, nothing written but outputs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

import torch

from tests.devices import copies
from tests.programs import chain, fusion, like, plan_of, stop
from thunder_fuser.options import Options
from thunder_fuser.runtime.clock import Seconds, Stop
from thunder_fuser.runtime.contest import LAPS, contest, fastest
from thunder_fuser.runtime.plan import Plan

COMPILED = Options(tune="off")


def two_segments(*tensors: torch.Tensor) -> Plan:
    (a,) = like(*tensors)
    return plan_of(fusion([a], chain(stop(chain(a, "exp")), "neg")), *tensors, options=COMPILED)


def ticking() -> Callable[[], Stop]:
    """Counts the laps of all rivals."""
    laps = count(1)
    return lambda: lambda: _told(float(next(laps)))


def _told(seconds: float) -> Seconds:
    return lambda: seconds


def test_rivals_are_launched_in_turns_on_the_pointers_of_the_plan() -> None:
    x = torch.randn(5, 33)
    plan, called = two_segments(x), []
    launch = plan.launchers[0]
    assert launch is not None

    def rival(name: str) -> Callable[..., None]:
        def launched(stream: int, *values: object) -> None:
            called.append((name, *values))
            launch(stream, *values)

        return launched

    times = contest(plan, {0: [rival("a"), rival("b")]}, [x], 60.0, clock=ticking())
    names = [name for name, *_ in called]
    assert names == ["a", "b"] * (LAPS + 1)  # the first lap is not counted
    assert len({tuple(values) for _, *values in called}) == 1
    assert called[0][1] == x.data_ptr()
    assert times == {0: (float(LAPS), LAPS + 1.0)}  # the medians of 1, 3, ... and of 2, 4, ...


def test_a_contest_without_time_runs_one_lap() -> None:
    x = torch.randn(5, 33)
    plan = two_segments(x)
    launch = plan.launchers[1]
    assert launch is not None
    assert contest(plan, {1: [launch, launch]}, [x], 0.0, clock=ticking()) == {1: (1.0, 2.0)}


def test_the_arguments_of_a_contest_stay_as_they_are(device: torch.device) -> None:
    x = torch.randn(40, 6)[::2]
    (a,) = like(x)
    b = stop(chain(a, "exp"))
    program = fusion([a], chain(b, "neg"), writes=[(chain(b, "sin"), a)])
    (given,) = copies([x])
    plan = plan_of(program, given, options=COMPILED)
    launch = plan.launchers[0]
    assert launch is not None
    times = contest(plan, {0: [launch, launch]}, [given], 0.01, flushed=1000)
    assert torch.equal(given.cpu(), x)
    assert all(seconds > 0 for seconds in times[0])


def test_the_first_rival_loses_to_what_is_faster_beyond_the_noise() -> None:
    assert fastest((5.0, 4.95, 4.99)) == 0
    assert fastest((5.0, 4.0, 3.0, 6.0)) == 2
    assert fastest((5.0,)) == 0
    assert fastest((8.35e-6, 8.22e-6)) == 0  # of kernels that take 4.16 and 4.22
    assert fastest((8.22e-6, 7.74e-6)) == 1  # which are 4.2 and 3.6 without their launches
    assert fastest((90e-6, 85e-6)) == 1
    assert fastest((72e-6, 71.3e-6)) == 0  # by less than 1 %
    assert fastest((72e-6, 70.4e-6)) == 1
