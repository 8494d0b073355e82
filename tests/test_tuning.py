"""Autotuning: every rival computes the same, the fastest is taken and remembered, and nothing else
about a call changes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from pathlib import Path

import pytest
import torch
from msgspec import json

from tests.devices import copies
from tests.programs import (
    H200,
    cat,
    chain,
    fusion,
    like,
    permute,
    piece,
    plan_of,
    stop,
    total,
    unsqueeze,
)
from thunder_fuser.codegen.emit import emit
from thunder_fuser.ir import scalar as sc
from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.tensor import TensorView
from thunder_fuser.kernel.source import Source
from thunder_fuser.kernel.templates import draft, variants
from thunder_fuser.options import Options
from thunder_fuser.pipeline import cut_region, make_plan
from thunder_fuser.runtime.bind import bind
from thunder_fuser.runtime.choices import CHOICES, choices_of
from thunder_fuser.runtime.clock import Clock, Seconds, Stop
from thunder_fuser.runtime.compilation import Launcher
from thunder_fuser.runtime.contest import LAPS
from thunder_fuser.runtime.disk_cache import disk_cache
from thunder_fuser.runtime.errors import FuserError
from thunder_fuser.runtime.kernels import KERNELS
from thunder_fuser.runtime.plan import Plan
from thunder_fuser.runtime.planning import PLANNING
from thunder_fuser.runtime.targets import target_for
from thunder_fuser.schedule.parameters import MapParameters, RowParameters
from thunder_fuser.tuning import Candidate, Entrant, Loader, Tuner

ALWAYS = Options(tune="always", tune_bytes=0, cache="off")


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    CHOICES.clear()
    yield
    CHOICES.clear()


def clock(times: Sequence[float]) -> Clock:
    """Tells these seconds in turns."""
    told = cycle(times)

    def start() -> Stop:
        def stopped() -> Seconds:
            seconds = next(told)
            return lambda: seconds

        return stopped

    return start


def softmax(x: TensorView) -> TensorView:
    e = call("exp", call("sub", x, unsqueeze(call("max", x, dims=(1,)), 1)))
    return call("div", e, unsqueeze(total(e, 1), 1))


def rotated(x: TensorView) -> TensorView:
    half = x.shape[1] // 2
    halves = piece(x, 1, half, 2 * half), piece(x, 1, 0, half)
    return call("mul", cat(chain(halves[0], "neg"), halves[1], dim=1), x)


def turned(x: TensorView) -> TensorView:
    return chain(permute(x, 1, 0), "exp")


def denominator(x: TensorView) -> TensorView:
    return total(call("exp", call("sub", x, unsqueeze(call("max", x, dims=(1,)), 1))), 1)


PROGRAMS: dict[str, tuple[Callable[[TensorView], tuple[TensorView, ...]], tuple[int, int]]] = {
    "map in pieces": (lambda x: (rotated(x),), (37, 64)),
    "map in squares": (lambda x: (turned(x),), (70, 96)),
    "short rows": (lambda x: (softmax(x),), (33, 128)),
    "rows": (lambda x: (softmax(x),), (5, 4096)),
    "rows of odd length": (lambda x: (softmax(x),), (5, 1001)),
    "long rows": (lambda x: (softmax(x),), (2, 40000)),
    "streams": (lambda x: (denominator(x),), (3, 20000)),
    "columns": (lambda x: (total(x, 0),), (201, 96)),
    "rows and columns": (lambda x: (e := softmax(x), total(e, 0)), (16, 512)),
}


@pytest.mark.sanitizer
@pytest.mark.parametrize("name", PROGRAMS)
def test_every_variant_computes_the_same(name: str, device: torch.device) -> None:
    make, shape = PROGRAMS[name]
    x = torch.randn(shape)
    (a,) = like(x)
    given = copies([x])
    plan = plan_of(fusion([a], *make(a)), *given, options=Options())
    target, kinds = target_for(device), set[object]()
    wanted = plan.run(*given)
    for position, segment in enumerate(plan.segmented.segments):
        preferred = draft(segment, target, strict=False)
        kinds.add(_work(emit(preferred.lower(False))))
        for other in variants(segment, target, preferred):
            source, model = emit(other.lower(False)), plan.kernels[position]
            if model is None or source.workspace_bytes != model.workspace_bytes:
                continue  # it takes no other one's place in a plan
            kinds.add(_work(source))
            launcher = KERNELS.launcher(source, target, Options())
            found = plan.with_kernel(position, source, launcher).run(*given)
            for got, want in zip(found, wanted, strict=True):
                if isinstance(other.parameters, MapParameters):
                    assert torch.equal(got, want), other.parameters
                else:  # the order of sums differs
                    torch.testing.assert_close(got, want, msg=str(other.parameters))
    assert len(kinds) > 1


def _work(source: Source) -> object:
    return source.text, source.blocks, source.threads


def raced(
    tuner: Tuner, program: Fusion, *tensors: torch.Tensor
) -> tuple[Plan, list[Candidate | None], dict[int, Entrant]]:
    """The plan of the model's kernels, those kernels, and what beat them."""
    plan = plan_of(program, *tensors, options=Options(tune="off"))
    candidates: list[Candidate | None] = [tuner.choose(s) for s in plan.segmented.segments]
    load = partial(KERNELS.launchers, target=tuner.target, options=tuner.options)
    loader = Loader(tuner.rivals(plan.segmented.segments, candidates), load)
    loader.launchers([c.source for c in candidates if c is not None])
    return plan, candidates, dict(tuner.race(plan, candidates, loader.entrants(), tensors))


def tuner(times: Sequence[float], options: Options = ALWAYS) -> Tuner:
    cpu = torch.device("cpu")
    return Tuner(target_for(cpu), options, cpu, clock(times))


def rows(count: int = 8) -> tuple[Fusion, torch.Tensor]:
    x = torch.randn(count, 4096)
    (a,) = like(x)
    return fusion([a], softmax(a)), x


def test_the_fastest_kernel_wins_and_is_remembered() -> None:
    program, x = rows()
    plan, _, won = raced(tuner([5.0, 3.0, 4.0, 6.0, 6.0]), program, x)
    assert won[0].candidate.draft.parameters == RowParameters(held=16)
    faster = plan.with_kernel(0, won[0].candidate.source, won[0].launcher)
    torch.testing.assert_close(faster.run(x)[0], x.softmax(1))
    again = tuner([1.0])  # a clock that would prefer the model's
    _, candidates, other = raced(again, program, x)
    assert other == {}  # no second contest
    assert candidates[0] is not None
    assert candidates[0].source.text == won[0].candidate.source.text


def test_rivals_are_compiled_with_the_kernels_of_the_plan() -> None:
    program, _ = rows()
    loads: list[int] = []

    def load(sources: Sequence[Source]) -> Sequence[Launcher]:
        loads.append(len(sources))
        if len(loads) == 1:
            raise FuserError("one of them")
        return KERNELS.launchers(sources, found.target, ALWAYS)

    found = tuner([5.0])
    plan = plan_of(program, torch.empty(8, 4096), options=Options(tune="off"))
    candidates = [found.choose(s) for s in plan.segmented.segments]
    (rivals,) = found.rivals(plan.segmented.segments, candidates).values()
    sources = [candidate.source for candidate in candidates if candidate is not None]
    loader = Loader({0: rivals}, load)
    assert len(loader.launchers(sources)) == 1
    assert loads == [1 + len(rivals), 1]  # and no fault of the plan that a rival is one
    assert len(loader.entrants()[0]) == len(rivals)
    loads[1:] = []
    loader = Loader({0: rivals}, load)
    assert len(loader.launchers(sources)) == 1
    assert len(loader.entrants()[0]) == len(rivals)
    assert loads == [1 + len(rivals)] * 2  # and none is looked up once more


def test_a_new_plan_and_its_rivals_are_not_found_in_memory() -> None:
    program, x = rows(24)
    KERNELS.clear()
    make_plan(program, [x], replace(ALWAYS, tune_ms=5))
    found = KERNELS.statistics()
    assert found.compiled > 1
    assert found.memory_hits == 0


def test_what_is_not_faster_beyond_the_noise_changes_nothing() -> None:
    program, x = rows()
    assert raced(tuner([5.0, 4.95, 5.0, 5.0, 5.0]), program, x)[2] == {}


def test_one_slow_lap_is_forgiven() -> None:
    program, x = rows()
    laps = [[5.0, 3.0, 4.0, 4.0, 4.0] for _ in range(LAPS)]
    laps[2][1] = 500.0
    _, _, won = raced(tuner([t for lap in laps for t in lap]), program, x)
    assert won[0].candidate.draft.parameters == RowParameters(held=16)


@pytest.mark.parametrize(
    "options",
    [
        Options(tune="off", tune_bytes=0),
        Options(tune="on", tune_bytes=0),  # the host is no GPU
        Options(tune="always"),  # 256 KB are too little
    ],
)
def test_nothing_is_timed_where_it_is_not_wanted(options: Options) -> None:
    program, x = rows()
    _, candidates, won = raced(tuner([5.0, 1.0], options), program, x)
    assert won == {}
    assert candidates[0] is not None
    assert candidates[0].contest is None


def test_a_kernel_that_writes_in_place_is_not_launched_twice() -> None:
    x = torch.randn(40)
    (a,) = like(x)
    b = stop(call("exp", a))
    program = fusion([a], call("mul", b, b), writes=[(call("add", a, b), a)])
    old = x.clone()
    plan, candidates, won = raced(tuner([5.0, 1.0]), program, x)
    in_place = [any(s.is_in_place for s in seg.stores) for seg in plan.segmented.segments]
    assert in_place.count(True) == 1
    keys = [c.contest for c in candidates if c is not None]
    assert [key is None for key in keys] == in_place
    assert set(won) == {k for k, writes in enumerate(in_place) if not writes}
    assert torch.equal(x, old)  # the contest wrote into a copy


def test_sizes_apart_by_less_than_two_times_share_a_choice() -> None:
    program, x = rows(8)
    assert raced(tuner([5.0, 3.0, 6.0, 6.0, 6.0]), program, x)[2]
    near, y = rows(11)
    assert raced(tuner([5.0, 3.0, 6.0, 6.0, 6.0]), near, y)[2] == {}
    far, z = rows(100)
    assert raced(tuner([5.0, 3.0, 6.0, 6.0, 6.0]), far, z)[2]


def test_what_is_for_many_sizes_races_against_the_same_for_this_size_alone() -> None:
    options = replace(ALWAYS, static_kernels=1)
    KERNELS.clear()
    for count in (64, 80):
        x = torch.randn(count, 48)
        (a,) = like(x)
        plan = plan_of(fusion([a], rotated(a)), x, options=replace(options, tune="off"))
    found = tuner([5.0, 3.0, 6.0, 6.0, 6.0, 6.0], options)
    candidates = [found.choose(s) for s in plan.segmented.segments]
    load = partial(KERNELS.launchers, target=found.target, options=options)
    loader = Loader(found.rivals(plan.segmented.segments, candidates), load)
    (won,) = found.race(plan, candidates, loader.entrants(), [x]).values()
    assert won.candidate.source.is_alone
    assert won.candidate.draft is candidates[0].draft
    (before,), (after,) = plan.launchers, (won.launcher,)
    assert before is not None
    assert KERNELS.metadata(before) != KERNELS.metadata(after)
    faster = plan.with_kernel(0, won.candidate.source, won.launcher)
    assert torch.equal(faster.run(x)[0], *plan.run(x))


def test_a_choice_is_of_sizes_that_have_a_kernel_of_their_own() -> None:
    x = torch.randn(64, 48)
    (a,) = like(x)
    plan = plan_of(fusion([a], rotated(a)), x, options=Options(tune="off"))
    (segment,) = plan.segmented.segments
    found = tuner([])
    model = found.candidate(draft(segment, found.target, strict=False))
    others = list(variants(segment, found.target, model.draft))
    assert len(others) > 1
    for other in others:
        chosen = found.candidate(other, preferred=model.draft).source
        assert chosen.general is not None
        assert model.source.general is not None
        assert chosen.general() == model.source.general()
        assert chosen != model.source


@pytest.mark.parametrize(("rows", "columns"), [(20000, 8), (8192, 24), (60000, 8)])
def test_a_kernel_for_many_sizes_has_the_room_of_that_for_one(rows: int, columns: int) -> None:
    """A plan gives it what its own kernel asked for."""
    x, mask = (torch.empty(rows, columns, dtype=torch.int64) for _ in "xm")
    a, b = like(x, mask)
    counted = call("ne", b, sc.constant(1))
    most = call("max", call("where", counted, a, sc.constant(3)), dims=(0,))
    bound = bind(fusion([a, b], most, counted), (x, mask))
    found = Tuner(H200, Options(tune="off"), torch.device("cpu"))
    for segment in cut_region(bound.fusion, bound.layouts, H200, strict=False).segments:
        source = found.choose(segment).source
        assert source.general is not None
        general = source.general()
        assert (general.workspace_bytes, general.tickets) == (
            source.workspace_bytes,
            source.tickets,
        )


def test_a_process_takes_the_choice_of_another_one_from_disk(tmp_path: Path) -> None:
    program, x = rows()
    options = Options(tune="always", tune_bytes=0, cache_dir=str(tmp_path / "cache"))
    _, _, won = raced(tuner([5.0, 3.0, 6.0, 6.0, 6.0], options), program, x)
    CHOICES.clear()
    _, candidates, again = raced(tuner([5.0], options), program, x)
    assert again == {}
    assert candidates[0] is not None
    assert candidates[0].source == won[0].candidate.source
    (kept,) = choices_of(disk_cache(options))
    assert kept.parameters == str(won[0].candidate.draft.parameters)
    assert kept.microseconds[kept.parameters] == 3e6
    assert str(kept).startswith(f"{kept.parameters}: 3000000.0 us, the model's 5000000.0, of ")


def test_a_file_pins_a_choice_with_tuning_off(tmp_path: Path) -> None:
    program, x = rows()
    written = Options(tune="always", tune_bytes=0, cache_dir=str(tmp_path / "cache"))
    _, _, won = raced(tuner([5.0, 3.0, 6.0, 6.0, 6.0], written), program, x)
    file = tmp_path / "tuned.json"
    file.write_bytes(json.encode({"choices": choices_of(disk_cache(written))}))
    CHOICES.clear()
    pinned = Options(tune="off", tuned=str(file), tune_bytes=0, cache="off")
    here = Tuner(target_for(x.device), pinned, x.device)
    plan = plan_of(program, x, options=Options(tune="off"))
    (segment,) = plan.segmented.segments
    assert here.choose(segment).source == won[0].candidate.source


def test_contests_are_counted_apart_from_plans() -> None:
    program, x = rows()
    before = PLANNING.statistics()
    raced(tuner([5.0, 3.0, 6.0, 6.0, 6.0]), program, x)
    found = PLANNING.statistics()
    assert found.contests == before.contests + 1
    assert found.contest_seconds > before.contest_seconds


def test_a_tuned_call_returns_what_an_untuned_one_does(device: torch.device) -> None:
    program, x = rows(64)
    (given,) = copies([x])
    options = Options(tune="always", tune_bytes=0, tune_ms=5)
    (found,) = make_plan(program, [given], options).run(given)
    torch.testing.assert_close(found.cpu(), x.softmax(1))


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_captured_graph_replays_a_tuned_plan() -> None:
    program, x = rows(64)
    given = x.cuda()
    plan = make_plan(program, [given], Options(tune_bytes=0, tune_ms=20))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        (found,) = plan.run(given)
    given.copy_(y := torch.randn_like(given))
    graph.replay()
    torch.testing.assert_close(found, y.softmax(1))
