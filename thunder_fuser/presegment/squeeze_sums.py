"""A reduction of one term is that term.

    T1 = sum(T0, dims=[1, 2])    =>    T1 = squeeze(T0, dims=[1, 2])        T0: [16, 1, 1]

The gradient of a weight that was given unit dims before it met a plane is summed once for each such
step. Where blocks share a sum, another sum of its results waited for a launch of its own.
"""

from __future__ import annotations

from thunder_fuser.ir.build import call
from thunder_fuser.ir.fusion import Fusion
from thunder_fuser.ir.rewrite import rewrite
from thunder_fuser.ir.tensor import TensorView, Value

OF_TERMS = frozenset({"sum", "prod", "max", "min"})


def squeeze_sums(fusion: Fusion) -> Fusion:
    """`fusion` without such reductions."""
    return rewrite(fusion, _squeezed)


def _squeezed(tv: TensorView, inputs: tuple[Value, ...]) -> TensorView | None:
    made = tv.definition
    assert made is not None
    if made.op.name not in OF_TERMS:
        return None
    (source,), dims = inputs, made.attr("dims")
    assert isinstance(source, TensorView)
    assert isinstance(dims, tuple)
    if not dims or any(source.shape[d] != 1 for d in dims if isinstance(d, int)):
        return None
    kept = call("squeeze", source, dims=dims, squeeze_expanded=False)
    return kept if kept.dtype is tv.dtype else call("cast", kept, dtype=tv.dtype)
