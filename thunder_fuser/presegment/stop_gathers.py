"""Put a stop point where a gather cannot be computed from what its producer is computed from.

    T1 = sum(T0, dims=[1]); T2 = mul(T0, T1); T4 = index_select(T2, T3)
        =>   T2' = segment_set(T2); T4 = index_select(T2', T3)

A gather computes the elements of its producer where it reads them. That is impossible where such an
element needs a long reduction of another row than the one that is being worked on, and wasteful
where it needs many elements of memory. Nor can an index be loaded before a reduction that makes it.
"""

from __future__ import annotations

from thunder_fuser.analysis.access import Demand, demand
from thunder_fuser.analysis.digits import atom, loads_in
from thunder_fuser.analysis.reductions import is_long
from thunder_fuser.analysis.views import is_stop
from thunder_fuser.ir.build import again, call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value
from thunder_fuser.ops import Family

MAX_READS = 8  # elements of memory that a gathered element is computed from


def stop_gathers(fusion: Fusion) -> Fusion:
    """`fusion` with stop points before such gathers."""
    return rewrite(fusion, _stop)


def _stop(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    expr = tv.expr
    if expr.op.family is not Family.GATHER:
        return None
    x, places = inputs
    assert isinstance(x, TensorView)
    assert isinstance(places, TensorView)
    kept = (x if _is_near(tv, inputs) else call("segment_set", x), _after_reductions(places))
    made = again(expr, kept)
    return None if kept == inputs else made


def _is_near(tv: TensorView, inputs: tuple[Value, ...]) -> bool:
    """True where the producer's elements are computed where they are gathered."""
    made = again(tv.expr, inputs)
    gathered = [(leaf, index) for leaf, index in needs_of(made).leaves if any(loads_in(index))]
    return len(gathered) <= MAX_READS and not any(is_long(leaf) for leaf, _ in gathered)


def _after_reductions(places: TensorView) -> TensorView:
    """`places`, read from memory if a long reduction makes them."""
    if any(is_long(leaf) for leaf, _ in needs_of(places).leaves):
        return call("segment_set", places)
    return places


def needs_of(tv: TensorView) -> Demand:
    """What its elements need, down to what a segment reads from memory or reduces itself."""
    return demand([(tv, tuple(map(atom, tv.logical)))], _Ends())


class _Ends:
    """Such tensors, as demand's leaves."""

    def __contains__(self, tv: object) -> bool:
        assert isinstance(tv, TensorView)
        return tv.definition is None or is_stop(tv) or is_long(tv)
