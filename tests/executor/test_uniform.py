"""Draws of uniform numbers become those of a seed and an offset, whatever their bounds are."""

from __future__ import annotations

import pytest
from thunder.core import devices, dtypes, prims
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx, tracectx

from thunder_fuser.executor.uniform import stateless

GPU = devices.Device("cuda:0")


def traced(*bounds: tuple[float, float]) -> TraceCtx:
    """A draw per pair of bounds, all returned."""
    trace = TraceCtx()
    with tracectx(trace):
        drawn = [
            prims.uniform((3, 5), low, high, device=GPU, dtype=dtypes.float32)
            for low, high in bounds
        ]
        prims.python_return(tuple(drawn))
    return trace


def named(trace: TraceCtx, name: str) -> list[BoundSymbol]:
    return [bsym for bsym in trace.bound_symbols if bsym.sym.name == name]


@pytest.mark.parametrize("bounds", [(0, 1), (0.0, 1.0), (-2, 0.5), (False, True)])
def test_a_draw_has_a_seed_an_offset_and_floats_as_bounds(bounds: tuple[float, float]) -> None:
    """torch.rand is traced with whole numbers, which Thunder's own pass refuses."""
    trace = traced(bounds)
    (before,) = named(trace, "uniform")
    found = stateless(trace)
    assert not named(found, "uniform")
    (draw,), (state,) = named(found, "uniform_philox"), named(found, "get_and_update_rng_state")
    assert draw.args == ((3, 5), float(bounds[0]), float(bounds[1]))
    assert [type(bound) for bound in draw.args[1:]] == [float, float]
    assert (draw.kwargs["seed"], draw.kwargs["offset"]) == tuple(state.output)
    assert draw.output.name == before.output.name


def test_every_draw_moves_the_offset_on() -> None:
    found = stateless(traced((0, 1), (0.0, 1.0), (3, 4)))
    first, second, third = named(found, "get_and_update_rng_state")
    assert first.args[:2] == (None, None)
    assert second.args[:2] == tuple(first.output)
    assert third.args[:2] == tuple(second.output)


def test_a_trace_without_draws_stays() -> None:
    trace = traced()
    assert stateless(trace).bound_symbols == trace.bound_symbols
