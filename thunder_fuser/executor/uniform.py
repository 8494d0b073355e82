"""Random numbers as a function of torch's seed and offset, so that a region may draw them again.

    t0 = uniform((3, 5), 0, 1)   =>   seed, offset = get_and_update_rng_state(None, None)
                                      t0 = uniform_philox((3, 5), 0., 1., seed=seed, offset=offset)

Thunder's pass does that, but refuses bounds that are whole numbers, as `torch.rand` has them there.
"""

from __future__ import annotations

from typing import Any

from thunder.core.prims import PrimIDs
from thunder.core.rematerialization import replace_uniform
from thunder.core.symbol import BoundSymbol
from thunder.core.trace import TraceCtx

from thunder_fuser.executor.storage import rebuilt


def stateless(trace: TraceCtx) -> TraceCtx:
    """The trace in which every draw of uniform numbers on a GPU is one of a seed and an offset."""
    return replace_uniform(rebuilt(trace, map(_with_float_bounds, trace.bound_symbols)))


def _with_float_bounds(bsym: BoundSymbol) -> BoundSymbol:
    if bsym.sym.id is not PrimIDs.UNIFORM:
        return bsym
    shape, *bounds = bsym.args
    if not any(isinstance(bound, int) for bound in bounds):
        return bsym
    found: BoundSymbol = bsym.from_bsym(args=(shape, *map(_floated, bounds)))
    return found


def _floated(bound: Any) -> Any:
    return float(bound) if isinstance(bound, int) else bound
